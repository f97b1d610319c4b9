"""`python -m tidyberg` is the `tidyberg` command."""

from tidyberg.cli.main import run

if __name__ == "__main__":
    run()
