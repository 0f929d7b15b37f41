"""The command line of the analysis: `python3 -m analysis report DIR...`, which `./peerbed report` calls."""

import argparse
import os
import sys
from pathlib import Path


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """One sentence; the usage is what --help is for."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="peerbed", description="Tables, figures and reports of run and campaign folders.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser, metavar="COMMAND")
    report = commands.add_parser("report", help="write report.html and plots/ into each folder")
    report.add_argument("folders", nargs="+", metavar="DIR", help="a run's or a campaign's folder")
    plot = commands.add_parser("plot", help="write the figures alone")
    plot.add_argument("folders", nargs="+", metavar="DIR", help="a run's or a campaign's folder")
    plot.add_argument("--figure", action="append", metavar="NAME", help="only this one (may be repeated)")
    plot.add_argument("--out", metavar="DIR", help="where to (default: plots/ in the folder)")
    compare = commands.add_parser("compare", help="metric by metric, what differs between two runs or campaigns")
    compare.add_argument("first", metavar="A")
    compare.add_argument("second", metavar="B")
    return parser


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    # Imported after the arguments are understood: matplotlib takes a second, and a typing error should not.
    from analysis.load import InputError, load

    try:
        if options.command == "report":
            from analysis import report

            for folder in options.folders:
                print(report.write(load(folder)))
        elif options.command == "plot":
            from analysis import figures, report

            for name in options.figure or []:
                if name not in figures.MODULES:
                    raise InputError(f"there is no figure '{name}'; there are {', '.join(figures.MODULES)}")
            for folder in options.folders:
                loaded = load(folder)
                target = Path(options.out) if options.out else loaded.folder / "plots"
                saved = report.plot(loaded, target, options.figure)
                if not saved:
                    raise InputError(f"{folder}: it holds nothing that these figures show")
                for figure in saved:
                    print(target / f"{figure['name']}.png")
        else:
            from analysis import compare

            print(compare.table(load(options.first), load(options.second)))
    except InputError as error:
        print(f"peerbed: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"peerbed: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
