//! Results of runs as one HTML file that needs nothing else: no network, no other file. Knows what
//! stands in results, and not how they came about.

use crate::results::RunResult;

const PLOTS_JS: &str = include_str!("vendor/uPlot.iife.min.js");
const PLOTS_CSS: &str = include_str!("vendor/uPlot.min.css");
const PLOTS_LICENSE: &str = include_str!("vendor/uPlot.LICENSE");
const PAGE_JS: &str = include_str!("page.js");
const PAGE_CSS: &str = include_str!("page.css");

/// The page for these runs, side by side in this order.
pub fn page(runs: &[RunResult]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = escape(&names.join(" and "));
    let data = serde_json::to_string(runs).expect("results are plain data");
    // A script element ends at the first `</` that looks like its end, wherever that stands.
    let data = data.replace('<', "\\u003c");
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
         <div id=\"notices\"></div>\n\
         <div id=\"summary\" class=\"wide\"></div>\n\
         <h2>Latency</h2>\n<div id=\"latencies\" class=\"wide\"></div>\n\
         <h2>Over time</h2>\n<div id=\"plots\" class=\"plots\"></div>\n\
         <h2>Broker, durability, environment</h2>\n<div id=\"environment\" class=\"wide\"></div>\n\
         </main>\n\
         <script type=\"application/json\" id=\"runs\">{data}</script>\n\
         <!-- uPlot:\n{PLOTS_LICENSE}-->\n\
         <script>{PLOTS_JS}</script>\n<script>{PAGE_JS}</script>\n</body>\n</html>\n"
    )
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
