"""What the ledger holds, as one web page and as a page of the documentation.

present   which tables and figures have runs, under which settings
collect   their numbers, and what was run
claims    which of the paper's comparisons held here
build     the web page; panels its figures, charts their SVG
markdown  the page of results for the documentation
"""
