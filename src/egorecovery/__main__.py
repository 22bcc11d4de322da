"""`python -m egorecovery`."""

from egorecovery.cli.main import main

raise SystemExit(main())
