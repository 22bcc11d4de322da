"""The page's looks: dark ink on light paper, one accent, readable when printed."""

CSS = """
:root { --ink: #1d2730; --soft: #5b6874; --rule: #dde2e6; --pale: #f4f6f8; --accent: #0a5a8a; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: #fff; font: 15.5px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; font-variant-numeric: tabular-nums; }
main, header > div, nav > div { max-width: 1200px; margin: 0 auto; padding: 0 28px; }
header { background: linear-gradient(180deg, #f0f5f9, #fff); border-bottom: 1px solid var(--rule);
  padding: 40px 0 26px; }
h1 { font-size: 33px; line-height: 1.15; margin: 0 0 8px; letter-spacing: -0.015em; }
header p.lead { margin: 0 0 22px; font-size: 17px; color: var(--soft); max-width: 96ch; }
h2 { font-size: 22px; margin: 52px 0 4px; letter-spacing: -0.01em; }
h3 { font-size: 16px; margin: 28px 0 8px; } h4 { font-size: 14.5px; margin: 20px 0 0; }
sub { font-size: .72em; }
p.note { color: var(--soft); font-size: 14px; max-width: 118ch; margin: 2px 0 14px; }
a { color: var(--accent); }
nav { position: sticky; top: 0; z-index: 5; background: rgba(255,255,255,.96); border-bottom: 1px solid var(--rule); }
nav > div { display: flex; flex-wrap: wrap; gap: 4px 20px; padding-top: 9px; padding-bottom: 9px; font-size: 14px; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
h2[id] { scroll-margin-top: 56px; }
.tiles { display: flex; flex-wrap: wrap; gap: 14px; margin: 0 0 24px; }
.tile { background: #fff; border: 1px solid var(--rule); border-radius: 10px; padding: 13px 18px; min-width: 170px;
  flex: 1; }
.tile.verdicts { flex: 1.25; } .tile.verdicts .legend { gap: 6px; }
.tile b { display: block; font-size: 29px; line-height: 1.15; letter-spacing: -0.02em; font-weight: 650; }
.tile span { display: block; font-size: 13.5px; } .tile small { color: var(--soft); font-size: 12.5px; }
dl.facts { display: grid; grid-template-columns: max-content 1fr max-content 1fr; gap: 5px 18px; margin: 0;
  font-size: 14px; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; }
.absent { margin: 20px 0 0; padding: 11px 16px; background: #fff8e8; border-left: 4px solid #c98a00;
  font-size: 14px; }
.absent ul { margin: 4px 0 0; padding-left: 20px; columns: 2; column-gap: 36px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th { font-weight: 600; text-align: left; }
caption { text-align: left; font-weight: 600; font-size: 15.5px; padding: 0 0 8px; }
table.heat { border-collapse: separate; border-spacing: 3px; margin: 18px 0 6px; width: max-content;
  table-layout: fixed; }
table.heat col { width: 82px; } table.heat col.name { width: 236px; } table.heat col.gap { width: 10px; }
table.heat col.glyph { width: 222px; }
table.variants col.name { width: 190px; } table.heat.variants col:not([class]) { width: 104px; }
table.heat thead th { text-align: center; font-size: 13px; padding: 3px 2px; line-height: 1.25; }
table.heat thead th.group { border-bottom: 2px solid var(--ink); font-size: 14px; }
table.heat thead th.name { text-align: left; vertical-align: bottom; }
table.heat tbody th { font-size: 14px; line-height: 1.3; padding: 4px 8px 4px 0; }
tbody th small { display: block; font-weight: 400; color: var(--soft); font-size: 11.5px; }
table.heat tr.ours th { color: #00694e; }
table.heat td { text-align: center; padding: 6px 2px 5px; border-radius: 5px; line-height: 1.2; }
table.heat td b { display: block; font-size: 16.5px; font-weight: 650; }
table.heat td small { display: block; font-size: 10.5px; white-space: nowrap; }
table.heat.few col:not([class]) { width: 132px; } table.heat caption { white-space: nowrap; }
td.none { color: #75808a; font-size: 11.5px;
  background: repeating-linear-gradient(135deg, #f6f7f8 0 5px, #eceff1 5px 10px); }
td.gap, th.gap { background: none; padding: 0; border: 0; }
table.plain { width: 100%; } table.plain th, table.plain td { padding: 6px 10px 6px 0;
  border-bottom: 1px solid var(--rule); }
table.plain thead th { font-size: 13px; color: var(--soft); vertical-align: bottom; }
table.plain thead tr:last-child th { border-bottom: 1.5px solid var(--ink); }
table.plain td.n, table.plain th.n { text-align: right; white-space: nowrap; }
table.plain tr.part th { background: var(--pale); padding-left: 8px; font-size: 13.5px; }
table.plain thead th.group { color: var(--ink); text-align: center; border-bottom: 0; }
table.tight td, table.tight th { padding: 3px 8px 3px 0; white-space: nowrap; }
table.tight thead tr:first-child th { border-bottom: 0; } table.tight svg { width: 164px; height: auto; }
td.once { white-space: nowrap; }
table.tight td small { display: block; color: var(--soft); font-size: 11px; }
table.small { font-size: 12.5px; } table.small thead th.n { max-width: 110px; white-space: normal; }
table.small th[scope=row] { white-space: nowrap; } table.small code { font-size: 11.5px; }
td svg { display: block; margin: 2px 0; }
.finding { display: grid; grid-template-columns: 128px 1fr 214px; gap: 18px; padding: 13px 0;
  border-bottom: 1px solid var(--rule);
  align-items: start; break-inside: avoid; }
.finding h3 { margin: 0 0 2px; font-size: 15.5px; } .finding p { margin: 0; font-size: 14px; color: #3c4853; }
ul.absent-here { margin: 0; padding-left: 18px; font-size: 14px; }
  ul.absent-here small, details li small { color: var(--soft); }
.pill { display: inline-block; padding: 3px 11px 3px 9px; border-radius: 20px; font-size: 13px; font-weight: 600;
  border: 1.5px solid;
  white-space: nowrap; background: #fff; }
.holds { color: #00694e; border-color: #00694e; background: #e7f5f0; }
.contradicted { color: #a33c00; border-color: #a33c00; background: #fdeee4; }
.undecided { color: #4b5762; border-color: #7d8993; background: #f4f6f8; }
.not-seen { color: #7a4b00; border-color: #b98a3a; background: #fbf5ea; }
.not-run { color: #75808a; border-color: #c3cad0; border-style: dashed; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 22px; margin: 16px 0 4px; }
.charts svg, .multiples svg { width: 100%; height: auto; }
.multiples { display: grid; grid-template-columns: repeat(4, 1fr); gap: 14px; margin: 12px 0; break-inside: avoid; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; font-size: 13px; margin: 6px 0; align-items: center; }
.legend span { display: inline-flex; gap: 7px; align-items: center; }
.scale { display: inline-flex; align-items: center; gap: 10px; font-size: 12.5px; color: var(--soft); }
.films { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(480px, 100%), 1fr));
  gap: 18px; margin-top: 8px; }
figure { margin: 0; break-inside: avoid; } figcaption { font-size: 13px; color: var(--soft); margin-top: 4px; }
figure img, figure video { width: 100%; border: 1px solid var(--rule); border-radius: 6px; display: block; }
figure.wide { margin: 16px 0; } figure.wide img { width: auto; max-width: 100%; }
pre { background: var(--pale); border: 1px solid var(--rule); border-radius: 8px; padding: 13px 16px;
  overflow-x: auto; font-size: 13px;
  line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; }
  code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
details { margin: 10px 0; } summary { cursor: pointer; color: var(--accent); font-size: 14px; }
footer { max-width: 1200px; margin: 56px auto 30px; padding: 14px 28px 0; border-top: 1px solid var(--rule);
  color: var(--soft);
  font-size: 13px; }
@media screen and (max-width: 900px) { dl.facts { grid-template-columns: max-content 1fr; }
  .finding { grid-template-columns: 1fr; gap: 6px; }
  .multiples { grid-template-columns: repeat(2, 1fr); } .charts { grid-template-columns: 1fr; }
  .absent ul { columns: 1; }
  main, header > div, nav > div { padding: 0 16px; } table.heat col.name { width: 140px; } }
@page { size: A4 landscape; margin: 11mm; }
@media print { body { zoom: .8; } .scroll { overflow: visible; } nav { display: none; }
  header { background: none; padding-top: 0; }
  h2 { break-after: avoid; margin-top: 28px; } table, figure { break-inside: avoid; } a { color: inherit;
  text-decoration: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } video { display: none; } }
"""
