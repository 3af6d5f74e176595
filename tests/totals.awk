# Adds up `ctest --verbose` logs and prints `N passed, N failed, N skipped`; exit 1 when something failed or nothing ran.
# Case programs print `slotscope-totals: ...` (or the plain line); the window's test classes print Qt Test's totals, in which
# initTestCase and cleanupTestCase are two passed tests per class. CTest's own count would hide skips (QSKIP passes there).
# A program that failed without saying which test (crash, time-out) is one failure. Variable steps: builds that failed.
function flush_all(   k) {
  for (k in seen) {
    if (k in own) { passed += ownp[k]; f = ownf[k]; skipped += owns[k] }
    else if (k in qt) { passed += qtp[k] - 2 * qt[k]; f = qtf[k]; skipped += qts[k] }
    else f = 0
    if (bad[k] && f == 0) f = 1
    if (!(k in own) && !(k in qt) && !bad[k]) f = 1  # no totals: it cannot be said to have tested anything
    failed += f
  }
  delete seen; delete own; delete ownp; delete ownf; delete owns; delete qt; delete qtp; delete qtf; delete qts; delete bad
}
FNR == 1 { flush_all() }
/^[0-9]+: / {
  k = $1 + 0
  seen[k] = 1
  line = $0
  sub(/^[0-9]+: /, "", line)
  if (line ~ /^(slotscope-totals: )?[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
    sub(/^slotscope-totals: /, "", line)
    split(line, n, /[ ,]+/)
    own[k] = 1; ownp[k] = n[1]; ownf[k] = n[3]; owns[k] = n[5]
  } else if (line ~ /^Totals: [0-9]+ passed/) {
    split(line, n, /[ ,]+/)
    qt[k]++; qtp[k] += n[2]; qtf[k] += n[4]; qts[k] += n[6]
  }
}
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
  match($0, /#[0-9]+/)
  k = substr($0, RSTART + 1, RLENGTH - 1) + 0
  seen[k] = 1
  if ($0 !~ / Passed /) bad[k] = 1
}
END {
  flush_all()
  failed += steps
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit failed > 0 || passed == 0
}
