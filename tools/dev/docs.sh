# ./dev docs: the documents as a site, in build/site. A link or an anchor that leads nowhere is an error.

docs() {
  local tools=build/docs-tools source=build/docs-source name
  if ! cmp -s tools/docs/requirements.txt "$tools/requirements.txt"; then
    say "installing mkdocs"
    install_packages tools/packages-package.txt
    python3 -m venv "$tools" || die "python3 cannot make a virtual environment"
    "$tools/bin/python" -m pip install -q -r tools/docs/requirements.txt || die "mkdocs could not be installed"
    cp tools/docs/requirements.txt "$tools/"
  fi
  # The same folders as in the checkout, so that links hold in both.
  rm -rf "$source"
  git -c "safe.directory=$PWD" ls-files -- '*.md' docs examples LICENSE | while read -r name; do
    [[ -e $name && $name != tests/* ]] || continue
    mkdir -p "$source/$(dirname "$name")"
    cp "$name" "$source/$name"
  done
  NO_MKDOCS_2_WARNING=1 quietly "the site was not made" "$tools/bin/mkdocs" build --clean -f tools/docs/mkdocs.yml
  [[ $(grep -rlE 'unpkg|<(script|link|img)[^>]*(src|href)="?(https?:)?//' build/site --include='*.html'; echo "$?") == 1 ]] ||
    die "a page loads something from elsewhere"
  [[ $(grep -rlE "(url\(|@import)[ \"']*(https?:)?//" build/site --include='*.css'; echo "$?") == 1 ]] ||
    die "a style sheet loads something from elsewhere"
  say "the site is in build/site; look at it with: python3 -m http.server -d build/site"
}
