"""What the ledger holds, as one web page and as a page of the documentation.

present   which tables and figures have runs, under which settings
build     everything that the page shows, and the page
charts    loss curves, task maps and accuracy against set size as inline SVG
claims    which of the paper's comparisons held here
markdown  the page of results for the documentation
"""
