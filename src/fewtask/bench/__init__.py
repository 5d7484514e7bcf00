"""How fast the product is: a plain transcription of the paper, the sizes of its data sets, and the measurements.

The plain transcription is also the oracle of the tests: it shares the weights and the layers with the product,
and none of its shortcuts.
"""
