//! The house rules that the compiler does not check: arrows between rooms, sizes, headers, names.
//! Reads the sources as text and knows nothing of what they do.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 1_000;
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that are longer than that, and by how many lines at most: to shrink, never to grow.
const LONGER: &[(&str, usize)] = &[("src/reactor/tests/turns.rs", 71)];
const FORBIDDEN_NAMES: &[&str] = &["core", "common", "utils", "manager", "helpers"];

/// A room and what its files must not name.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "src/wire",
        &["logic::", "reactor::", "client::", "corelog::", "tokio::"],
    ),
    (
        "src/logic",
        &[
            "reactor::",
            "client::",
            "corelog::",
            "std::fs",
            "std::net",
            "tokio::",
        ],
    ),
    (
        "src/reactor",
        &["wire::", "logic::", "client::", "corelog::", "tokio::"],
    ),
    ("src/client", &["logic::", "reactor::", "corelog::"]),
    ("loadgen", &["logic::", "reactor::", "corelog::"]),
    (
        "src/broker/storage",
        &[
            "crate::shard",
            "crate::api",
            "crate::net",
            "crate::consensus",
            "client::",
        ],
    ),
    (
        "src/broker/consensus",
        &[
            "crate::shard",
            "crate::api",
            "crate::net",
            "crate::storage",
            "client::",
        ],
    ),
    (
        "src/broker/shard",
        &["crate::api", "crate::net", "client::"],
    ),
    (
        "src/broker/api",
        &[
            "crate::net",
            "crate::storage",
            "crate::consensus",
            "client::",
        ],
    ),
    (
        "src/broker/net",
        &["crate::storage", "crate::consensus", "wire::", "client::"],
    ),
];

/// Names that belong to one room.
const OWNED: &[(&str, &str)] = &[
    ("glommio::", "src/reactor"),
    ("io_uring::", "src/reactor"),
    ("kacrab_protocol", "src/wire"),
    ("openraft::", "src/broker/consensus"),
];

struct Source {
    /// From the repository's root.
    path: String,
    text: String,
}

impl Source {
    /// The lines that the compiler reads, without what stands behind `//`.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).map(|(number, line)| {
            let code = line.find("//").map_or(line, |at| &line[..at]);
            (number, code)
        })
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests")
            || self.path.contains("/examples/")
            || self.path.starts_with("tests/")
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for room in ["src", "loadgen", "tests", "benches"] {
        collect(root, &root.join(room), &mut found);
    }
    assert!(found.len() > 50, "the sources are where this test looks");
    found
}

fn collect(root: &Path, directory: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let path = path.strip_prefix(root).expect("below the root");
            found.push(Source {
                path: path.to_string_lossy().into_owned(),
                text,
            });
        }
    }
}

/// Whether `code` names `what` as a path of its own: `wire::` is not in `rewire::`.
fn names(code: &str, what: &str) -> bool {
    code.match_indices(what).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

fn fail_if_any(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn data_travels_one_way() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (room, forbidden) in FORBIDDEN {
            if !source.path.starts_with(&format!("{room}/")) {
                continue;
            }
            for (number, code) in source.code() {
                if let Some(name) = forbidden.iter().find(|name| names(code, name)) {
                    faults.push(format!("{}:{number} names {name}", source.path));
                }
            }
        }
    }
    fail_if_any("a room names one that it must not know", &faults);
}

#[test]
fn machinery_stays_in_its_room() {
    let mut faults = Vec::new();
    for source in &sources() {
        for (name, room) in OWNED {
            if source.path.starts_with(room) || source.path == "tests/architecture.rs" {
                continue;
            }
            for (number, code) in source.code() {
                if names(code, name) {
                    faults.push(format!(
                        "{}:{number} names {name}, which is {room}'s",
                        source.path
                    ));
                }
            }
        }
    }
    fail_if_any("machinery is named outside its room", &faults);
}

#[test]
fn every_crate_but_the_reactor_forbids_unsafe_code() {
    let roots = [
        "src/wire/lib.rs",
        "src/logic/lib.rs",
        "src/client/lib.rs",
        "src/broker/lib.rs",
        "src/broker/main.rs",
        "loadgen/main.rs",
    ];
    let sources = sources();
    for root in roots {
        let source = sources.iter().find(|source| source.path == root);
        let source = source.unwrap_or_else(|| panic!("{root} is gone: change this test with it"));
        assert!(
            source.text.contains("#![forbid(unsafe_code)]"),
            "{root} allows unsafe code"
        );
    }
}

#[test]
fn every_file_says_what_it_is_and_none_is_a_drawer() {
    let mut faults = Vec::new();
    for source in &sources() {
        if !source.text.starts_with("//!") {
            faults.push(format!("{} does not open with what it is", source.path));
        }
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{} has {lines} lines", source.path));
        }
        let name = Path::new(&source.path)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        if FORBIDDEN_NAMES.contains(&&*name) {
            faults.push(format!("{} is named for nothing", source.path));
        }
    }
    fail_if_any("a file breaks the house rules", &faults);
}

#[test]
fn functions_fit_on_a_screen() {
    let mut faults = Vec::new();
    for source in &sources() {
        let ratchet = LONGER.iter().find(|(path, _)| *path == source.path);
        let most = ratchet.map_or(FUNCTION_LINES_MAX, |(_, lines)| *lines);
        for (number, lines) in long_functions(source, most) {
            faults.push(format!("{}:{number} is {lines} lines long", source.path));
        }
    }
    fail_if_any("a function is longer than 70 lines", &faults);
}

/// Where functions begin that are too long. Formatted code closes a function at the indentation at
/// which it opened.
fn long_functions(source: &Source, most: usize) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indentation = &line[..line.len() - code.len()];
        if !begins_function(code) {
            continue;
        }
        let end = format!("{indentation}}}");
        if let Some(length) = lines[at..].iter().position(|line| *line == end) {
            let length = length + 1;
            let one_line = lines[at].ends_with('}') || lines[at].ends_with(';');
            if length > most && !one_line {
                long.push((at + 1, length));
            }
        }
    }
    long
}

/// Whether the line's first word that is no qualifier is `fn`.
fn begins_function(code: &str) -> bool {
    let qualifier = |word: &&str| {
        word.starts_with("pub")
            || matches!(*word, "async" | "const" | "unsafe" | "extern" | "\"C\"")
    };
    code.split_whitespace().find(|word| !qualifier(word)) == Some("fn")
}
