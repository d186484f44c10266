//! Results of runs as one HTML file that needs nothing else: no network, no other file. Knows what
//! stands in results, and not how they came about.

use crate::results::RunResult;

const PLOTS_JS: &str = include_str!("vendor/uPlot.iife.min.js");
const PLOTS_CSS: &str = include_str!("vendor/uPlot.min.css");
const PLOTS_LICENSE: &str = include_str!("vendor/uPlot.LICENSE");
const PAGE_JS: &str = include_str!("page.js");
const PAGE_CSS: &str = include_str!("page.css");

/// A table of text, with what a reader must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns' names.
    pub head: Vec<String>,
    /// As many cells in each row.
    pub body: Vec<Vec<String>>,
    /// Sentences below it.
    pub notes: Vec<String>,
}

/// Runs that stand side by side, in this order.
#[derive(Clone, Debug)]
pub struct Section {
    /// What they have in common; empty where the page has no other section.
    pub title: String,
    /// The runs.
    pub runs: Vec<RunResult>,
}

/// The page for these runs, side by side.
pub fn page(runs: &[RunResult]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let section = Section {
        title: String::new(),
        runs: runs.to_vec(),
    };
    document(&names.join(" and "), "", &[section])
}

/// The page of a comparison: its table, then the runs in sections.
pub fn comparison(title: &str, table: &Table, sections: &[Section]) -> String {
    document(title, &table_html(table), sections)
}

fn document(title: &str, opening: &str, sections: &[Section]) -> String {
    let title = escape(title);
    let runs: Vec<&[RunResult]> = sections.iter().map(|section| &section.runs[..]).collect();
    let data = serde_json::to_string(&runs).expect("results are plain data");
    // A script element ends at the first `</` that looks like its end, wherever that stands.
    let data = data.replace('<', "\\u003c");
    let sections: String = (0..).zip(sections).map(section_html).collect();
    let policy =
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}: load generator report</title>\n\
         <style>{PLOTS_CSS}{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n\
         <p class=\"quiet\">Measured by corelog's load generator. \
         <a id=\"save\" download=\"runs.json\">Save the figures</a></p>\n\
         {opening}{sections}</main>\n\
         <script type=\"application/json\" id=\"sections\">{data}</script>\n\
         <!-- uPlot:\n{PLOTS_LICENSE}-->\n\
         <script>{PLOTS_JS}</script>\n<script>{PAGE_JS}</script>\n</body>\n</html>\n"
    )
}

/// The places that the page's script fills.
fn section_html((number, section): (usize, &Section)) -> String {
    let title = match &*section.title {
        "" => String::new(),
        title => format!("<h2>{}</h2>\n", escape(title)),
    };
    format!(
        "<section id=\"section-{number}\">\n{title}<div class=\"notices\"></div>\n\
         <div class=\"summary wide\"></div>\n\
         <h3>Latency</h3>\n<div class=\"latencies wide\"></div>\n\
         <h3>Over time</h3>\n<div class=\"plots\"></div>\n\
         <h3>Broker, durability, environment</h3>\n<div class=\"environment wide\"></div>\n\
         </section>\n"
    )
}

fn table_html(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = table.body.iter().map(|cells| row(cells, "td")).collect();
    let notes = table.notes.iter();
    let notes: String = notes
        .map(|note| format!("<p class=\"note\">{}</p>\n", escape(note)))
        .collect();
    let head = row(&table.head, "th");
    format!("<div class=\"wide\"><table>\n{head}{body}</table></div>\n{notes}")
}

impl Table {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.head.len()));
        let body: String = self.body.iter().map(|cells| line(cells)).collect();
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{}{rule}{body}\n{notes}", line(&self.head))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_nothing_from_anywhere() {
        let page = page(&[RunResult::default()]);
        for asks in [
            "src=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttpRequest",
            "import(",
        ] {
            assert!(!page.contains(asks), "{asks}");
        }
        let links = page.matches("href=\"").count();
        assert_eq!(links, page.matches("href=\"data:,\"").count());
    }

    #[test]
    fn a_comparison_has_its_table_and_a_place_for_each_section() {
        let table = Table {
            head: vec!["load".to_owned(), "p99".to_owned()],
            body: vec![vec!["open-50".to_owned(), "1 < 2".to_owned()]],
            notes: vec!["Medians.".to_owned()],
        };
        let section = |title: &str| Section {
            title: title.to_owned(),
            runs: vec![RunResult::default(); 2],
        };
        let page = comparison("a & b", &table, &[section("one"), section("two")]);
        assert!(page.contains("<td>1 &lt; 2</td>") && page.contains("<h1>a &amp; b</h1>"));
        assert!(page.contains("id=\"section-1\"") && !page.contains("id=\"section-2\""));
        let markdown = "| load | p99 |\n|---|---|\n| open-50 | 1 < 2 |\n\nMedians.\n";
        assert_eq!(table.markdown(), markdown);
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let run = RunResult {
            name: "</script><script>alert(1)</script>".to_owned(),
            ..RunResult::default()
        };
        assert!(!page(&[run]).contains("<script>alert"));
    }

    #[test]
    fn what_is_vendored_is_licensed() {
        let page = page(&[]);
        assert!(page.contains("Permission is hereby granted"));
    }
}
