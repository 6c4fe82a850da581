"""Sphinx's settings for the site; tools/build_site.py runs it and passes the version."""

from pathlib import Path

project = "Bolide"
author = "the Bolide contributors"
extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_block"]
myst_heading_anchors = 6
root_doc = "index"
highlight_language = "text"
smartquotes = False  # options begin with two dashes
nitpicky = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search.js"))
templates_path = ["templates"]
html_copy_source = False
html_show_search_summary = False  # it reads the pages again, which browsers forbid for files on a disk
html_show_sphinx = False
html_show_copyright = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
        "versions.html",
    ]
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
