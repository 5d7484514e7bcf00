"""The paper's tables and figures: which runs they need, running those, keeping their records, and showing them.

tables    which runs a table or figure is made of, and the paper's numbers
grid      their order, what is missing, and what it will cost
worker    one run; `fewtask.workers` carry out many
ledger    one small JSON file a finished run
summary   means, intervals and paired differences from the ledger alone
render    a summary on the terminal and as CSV, Markdown and JSON; figures draws
"""
