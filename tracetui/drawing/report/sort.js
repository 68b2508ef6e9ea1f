// Turns the headings of tables into buttons that sort by their column; without it the page is the same, unsorted.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const original = Array.from(body.rows);
  if (original.length < 2) continue;
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    const numeric = heading.classList.contains("n");
    const button = document.createElement("button");
    button.type = "button";
    while (heading.firstChild) button.append(heading.firstChild);
    heading.append(button);
    const key = (row) => {
      const cell = row.cells[column];
      const shown = cell.dataset.v ?? cell.textContent.replaceAll(",", "");
      if (!numeric) return cell.textContent === "–" ? null : cell.textContent.toLowerCase();
      const number = shown === "" ? NaN : Number(shown);
      return Number.isNaN(number) ? null : number;
    };
    button.addEventListener("click", () => {
      const first = numeric ? "descending" : "ascending";
      const second = numeric ? "ascending" : "descending";
      const was = heading.getAttribute("aria-sort");
      const now = was === first ? second : was === second ? "none" : first;
      for (const other of headings) other.removeAttribute("aria-sort");
      let rows = original.slice();
      if (now !== "none") {
        heading.setAttribute("aria-sort", now);
        const sign = now === "ascending" ? 1 : -1;
        const keyed = rows.map((row) => [key(row), row]);
        // What has no value comes last in either direction.
        keyed.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          return a < b ? -sign : a > b ? sign : 0;
        });
        rows = keyed.map(([, row]) => row);
      }
      body.append(...rows);
    });
  });
}
document.documentElement.dataset.sortable = "yes";
