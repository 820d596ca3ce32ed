"""Writes the pages of docs/ that are made from the code: ``python -m scripts.pages``."""

from scripts.pages import asyncapi, configuration, experiments, learning, message_schema, report_files, round

if __name__ == "__main__":
    for made in (asyncapi, configuration, experiments, learning, message_schema, report_files, round):
        made.PAGE.write_text(made.page(), encoding="utf-8")
