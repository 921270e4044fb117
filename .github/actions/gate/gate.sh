#!/usr/bin/env bash
# Score and compare; the step itself passes, so that what it wrote is kept. Its status is an output.
set -uo pipefail
undecided=()
[ -n "${UNDECIDED:-}" ] && undecided=(--undecided "$UNDECIDED")
link=${LINK:-"${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}/actions/runs/${GITHUB_RUN_ID:-}"}
# options are words, as on a command line
# shellcheck disable=SC2086
python -m ragscore.cli gate "$BASELINE" "$CANDIDATE" --golden "$GOLDEN" --out ragscore-gate \
  --link "$link" "${undecided[@]}" ${OPTIONS:-}
status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"
[ -f ragscore-gate/comment.md ] && cat ragscore-gate/comment.md >> "$GITHUB_STEP_SUMMARY"
exit 0
