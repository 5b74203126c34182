"""python -m windlass.cli"""

from windlass.cli import main

main()
