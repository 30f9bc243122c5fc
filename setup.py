"""What a wheel has beyond the package: `tidemill/bundled/`, which mirrors the checkout around `functions/`.

`tidemill migrate`, `tidemill doctor` and `tidemill dev` need more than the package: the migrations, the handlers' folders, and the built
page (left out where nobody has built it). In a checkout they lie beside the package; an installed one finds its copies here.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
NOT_FOR_LAPTOPS = ("deploy", "runner")


class BuildWithBundle(build_py):
    """Copies what lies beside the package into it."""

    def run(self) -> None:
        """The package, then the rest; an editable install finds it where it is."""
        super().run()
        if not self.editable_mode:
            bundled = Path(self.build_lib) / "tidemill" / "bundled"
            shutil.rmtree(bundled, ignore_errors=True)
            for path in (*ROOT.glob("migrations/*.sql"), *ROOT.glob("functions/*/handler.py"), ROOT / "frontend" / "dist" / "index.html"):
                if path.is_file() and path.parent.name not in NOT_FOR_LAPTOPS:
                    to = bundled / path.relative_to(ROOT)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, to)


setup(cmdclass={"build_py": BuildWithBundle})
