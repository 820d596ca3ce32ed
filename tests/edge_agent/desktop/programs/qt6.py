"""A text field of Qt 6: qt6.py TEXT_FILE."""

import sys
from pathlib import Path

from PyQt6.QtWidgets import QApplication, QPlainTextEdit


def main() -> None:
    out = Path(sys.argv[1])
    application = QApplication([])
    field = QPlainTextEdit()
    field.setWindowTitle("nightjar-test")

    def changed() -> None:
        out.with_suffix(".new").write_text(field.toPlainText())
        out.with_suffix(".new").replace(out)

    field.textChanged.connect(changed)
    field.resize(800, 600)
    field.show()
    application.exec()


main()
