#!/bin/sh
# Installs KART Audit from this folder alone, without a network: sh install.sh [DIRECTORY]
set -eu
PYTHON=${PYTHON:-python@PYTHON@}
TARGET=${1:-$HOME/kart-audit}

refuse() {
    echo "Not installed: $1" >&2
    exit 1
}

case $TARGET in /*) ;; *) TARGET=$PWD/$TARGET ;; esac
cd "$(dirname "$0")"
[ "$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = "@PYTHON@" ] ||
    refuse "these wheels are for Python @PYTHON@. Name it: PYTHON=/path/to/python sh install.sh"
[ -z "$(ls -A "$TARGET" 2>/dev/null)" ] ||
    refuse "$TARGET is not empty. Give a new directory; data are kept elsewhere and stay."
sha256sum --check --strict --quiet SHA256SUMS ||
    refuse "a file is not the one that was packed. Fetch the archive again."

mkdir -p "$TARGET"
tar -xf product.tar -C "$TARGET"
"$PYTHON" -m venv "$TARGET/.venv"
PIP_CONFIG_FILE=/dev/null "$TARGET/.venv/bin/python" -m pip --isolated install --quiet \
    --disable-pip-version-check --no-index --find-links wheels --require-hashes -r lock.txt
touch "$TARGET/.venv/.runtime" # for `make run`: nothing is left to fetch

cat <<END
Installed in $TARGET.
Can it be trusted here?  cd "$TARGET" && .venv/bin/python -m audit selftest
Start the app:           cd "$TARGET" && .venv/bin/python -m streamlit run app.py
The same with the demo:  cd "$TARGET" && make run
Who may open it, and where data are kept: docs/security.md
A login of the version before: its secrets.toml belongs into the data directory
(KART_AUDIT_HOME, or ~/.local/share/kart-audit), mode 600.
END
