# SPDX-License-Identifier: Apache-2.0
"""The frame of the report: markup and style, nothing that is loaded from elsewhere."""

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>physis run: {title}</title>
<style>
:root {{ color-scheme: light; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: #f1f5f9; color: #0f172a;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }}
main {{ max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }}
header h1 {{ margin: 0; font-size: 30px; letter-spacing: -0.02em; }}
header p {{ margin: 4px 0 22px; color: #475569; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; }}
.card, section {{ background: white; border: 1px solid #e2e8f0; border-radius: 10px; }}
.card {{ padding: 14px 16px; }}
.card .name, .card .note {{ color: #64748b; font-size: 13px; }}
.card .value {{ font-size: 26px; font-weight: 600; font-variant-numeric: tabular-nums; }}
.card small {{ font-size: 14px; font-weight: 400; color: #475569; }}
section {{ padding: 18px 22px; margin-top: 16px; }}
h2 {{ margin: 0 0 2px; font-size: 18px; }}
section > p {{ margin: 0 0 10px; color: #64748b; font-size: 14px; }}
svg, img {{ width: 100%; height: auto; display: block; border-radius: 6px; }}
svg text {{ font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif !important; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; }}
th, td {{ text-align: left; vertical-align: top; padding: 6px 14px 6px 0;
  border-top: 1px solid #e2e8f0; font-weight: 400; }}
tr:first-child th, tr:first-child td {{ border-top: 0; }}
th {{ color: #334155; white-space: nowrap; font-weight: 600; }}
td {{ font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }}
.meaning {{ color: #64748b; font-size: 13px; width: 45%; }}
.good {{ color: #047857; }}
.bad {{ color: #b91c1c; font-weight: 600; }}
.two {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 16px; }}
.two section {{ margin-top: 16px; }}
</style>
</head>
"""

PAGE = (
    HEAD
    + """<body>
<main>
<header><h1>{title}</h1><p>{subtitle}</p></header>
<div class="cards">{cards}</div>
<section><h2>Figures</h2><table>{rows}</table></section>
{figures}
<div class="two">
<section><h2>Consistency</h2>
<p>The figures checked against each other.</p><table>{checks}</table></section>
<section><h2>Live and recomputed</h2>
<p>As the servo said last, and from the recording.</p>
<table><tr><th></th><td>live</td><td>recomputed</td></tr>{account}</table></section>
</div>
<section><h2>Configuration</h2><table>{configuration}</table></section>
</main>
</body>
</html>
"""
)

FLEET_PAGE = (
    HEAD
    + """<body>
<main style="max-width: 1300px">
<header><h1>{title}</h1><p>{subtitle}</p></header>
<section><h2>Streams</h2><p>Each leads to its own page.</p><table>{rows}</table></section>
</main>
</body>
</html>
"""
)
