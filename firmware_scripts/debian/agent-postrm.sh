#!/bin/sh
set -e
if [ "$1" = remove ]; then
    echo "nightjar-agent: what each person typed and taught stays in .local/share/nightjar of that person's home," \
        "and settings in .config/nightjar, until the person deletes these folders"
fi
