"""`python -m hdpview`."""

from hdpview.cli import main

main()
