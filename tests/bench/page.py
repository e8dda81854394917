"""A section of a page that a benchmark writes: what stands between its two markers."""

from pathlib import Path


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in `page`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    content = page.read_text()
    before, found, rest = content.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{page} lacks the markers {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")
