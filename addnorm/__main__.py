"""python -m addnorm"""

from addnorm.cli import main

main()
