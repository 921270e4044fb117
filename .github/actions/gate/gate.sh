#!/usr/bin/env bash
# Score and compare; the step itself passes, so that what it wrote is kept. Its status is an output.
set -uo pipefail
if [ "${BASELINE#git:}" != "$BASELINE" ]; then  # git:REF:PATH, a file or folder of another commit
  place=${BASELINE#git:} && before=$(mktemp -d)
  git archive --format=tar "${place%%:*}" -- "${place#*:}" | tar -x -C "$before" || exit 2
  BASELINE=$before/${place#*:}
fi
undecided=()
[ -n "${UNDECIDED:-}" ] && undecided=(--undecided "$UNDECIDED")
link=()
[ -n "${LINK:-}" ] && link=(--link "$LINK")
# options are words, as on a command line
# shellcheck disable=SC2086
python -m ragscore.cli gate "$BASELINE" "$CANDIDATE" --golden "$GOLDEN" --out ragscore-gate \
  "${link[@]}" "${undecided[@]}" ${OPTIONS:-}
status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"
build="${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}/actions/runs/${GITHUB_RUN_ID:-}"
[ -f ragscore-gate/comment.md ] &&
  printf '\nReport and explorer: the artefact `ragscore-gate` of [this build](%s).\n' "$build" \
    >> ragscore-gate/comment.md
[ -f ragscore-gate/comment.md ] && cat ragscore-gate/comment.md >> "$GITHUB_STEP_SUMMARY"
exit 0
