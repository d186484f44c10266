//! The command line against a real broker, as a user has it: what it prints, how it exits, and what
//! `dump` makes of files that were damaged. Knows nothing of how commands work.
//!
//! Snapshots of JSON are in `tests/commands`; `CORELOG_SNAPSHOTS=write` writes them anew.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wire::Compression;
use wire::batch::stamp;
use wire::records::BatchBuilder;

use address::free_address;

#[path = "broker/address.rs"]
mod address;

const START_MAX: Duration = Duration::from_secs(20);

/// A directory of a test's own, gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("corelog-commands-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.0.join(name);
        let _ = fs::remove_dir_all(&to);
        copy_directory(from, &to);
        to
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_directory(&path, &target),
            false => drop(fs::copy(&path, &target).expect("copied")),
        }
    }
}

/// A broker of a test's own.
struct Broker {
    process: Child,
    address: SocketAddr,
    data: PathBuf,
}

impl Broker {
    fn start(data: &Path) -> Self {
        let address = free_address();
        let process = Command::new(env!("CARGO_BIN_EXE_corelog"))
            .args(["serve", "--shards", "1", "--listen", &address.to_string()])
            .arg("--data")
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the broker starts");
        let broker = Self {
            process,
            address,
            data: data.to_owned(),
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < START_MAX, "the broker does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        broker
    }

    /// Runs a command against it, with `input` as standard input.
    fn run_with(&self, line: &str, input: &str) -> Ran {
        run(line, Some(self.address), input.as_bytes())
    }

    fn run(&self, line: &str) -> Ran {
        self.run_with(line, "")
    }

    /// Runs a command that must succeed; returns what it printed.
    fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.errors);
        ran.printed
    }

    fn ok_with(&self, line: &str, input: &str) -> String {
        let ran = self.run_with(line, input);
        assert_eq!(ran.code, 0, "{line}: {}", ran.errors);
        ran.printed
    }

    fn kill(mut self) -> PathBuf {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
        std::mem::take(&mut self.data)
    }

    fn stop(mut self) -> PathBuf {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.expect("kill runs").success());
        assert!(self.process.wait().expect("it ends").success());
        std::mem::take(&mut self.data)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a command did.
#[derive(Debug)]
struct Ran {
    code: i32,
    printed: String,
    errors: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command whose words are separated by single spaces.
fn run(line: &str, brokers: Option<SocketAddr>, input: &[u8]) -> Ran {
    run_words(&line.split(' ').collect::<Vec<_>>(), brokers, input)
}

fn run_words(words: &[&str], brokers: Option<SocketAddr>, input: &[u8]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelog"));
    command.args(words).env_remove("CORELOG_BROKERS");
    if let Some(brokers) = brokers {
        command.env("CORELOG_BROKERS", brokers.to_string());
    }
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    // One that does not read its input is no fault.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends").into()
}

fn dump(path: &Path, more: &[&str]) -> Ran {
    let path = path.to_str().expect("a path in UTF-8");
    let words: Vec<&str> = ["dump", path]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    run_words(&words, None, b"")
}

/// Compares JSON with a snapshot, but for what differs from run to run.
fn assert_snapshot(name: &str, json: &str) {
    let document: Value = serde_json::from_str(json).unwrap_or_else(|error| {
        panic!("{name} is no JSON ({error}): {json}");
    });
    let mut found = serde_json::to_string_pretty(&settled(document, "")).expect("JSON");
    found.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/commands/{name}.json"));
    if std::env::var("CORELOG_SNAPSHOTS").is_ok_and(|it| it == "write") {
        fs::write(&path, found).expect("the snapshot is written");
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "{} differs", path.display());
}

fn settled(value: Value, key: &str) -> Value {
    const VARYING: [&str; 7] = [
        "id",
        "cluster_id",
        "topic_id",
        "address",
        "timestamp",
        "file",
        "documentation",
    ];
    match value {
        // The node's id is a number that is always the same.
        Value::String(_) if VARYING.contains(&key) => format!("<{key}>").into(),
        Value::Number(_) if key == "timestamp" => "<timestamp>".into(),
        Value::Array(items) => items.into_iter().map(|it| settled(it, key)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| {
                let value = settled(value, &key);
                (key, value)
            })
            .collect(),
        other => other,
    }
}

#[test]
fn json_keeps_its_shape() {
    let scratch = Scratch::new("json");
    let broker = Broker::start(&scratch.0.join("data"));
    let created = broker.ok("topic create orders -p 2 -c retention.ms=1000 -o json");
    assert_snapshot("topic-create", &created);
    let produced = broker.ok_with(
        "produce -t orders -p 1 -K: -H h=1 -o json",
        "k:v\nk:\n:w\nx\n",
    );
    assert_snapshot("produce", &produced);
    for (name, line) in [
        ("topic-list", "topic list -o json"),
        ("topic-describe", "topic describe orders -o json"),
        ("config-describe", "config describe -t orders -o json"),
        ("cluster-info", "cluster info -o json"),
        ("cluster-health", "cluster health -o json"),
        ("consume", "consume -t orders -o beginning -e -O json"),
    ] {
        assert_snapshot(name, &broker.ok(line));
    }
    let lines = broker.ok("consume -t orders -o beginning -e -J");
    assert_eq!(lines.lines().count(), 4);
    let none = broker.ok("consume -t orders -p 0 -o beginning -e -O json");
    assert_eq!(none, "[]\n");
}

#[test]
fn what_was_produced_is_consumed_from_where_to_where_it_is_asked_for() {
    let scratch = Scratch::new("consume");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create t -p 2");
    let numbers = |from: u32, to: u32| (from..to).map(|it| format!("{it}\n")).collect::<String>();
    broker.ok_with("produce -t t -p 0 -z gzip", &numbers(0, 1_000));
    for (bounds, from, to) in [
        ("-o beginning -e", 0, 1_000),
        ("-o 990 -e", 990, 1_000),
        ("-o -10 -e", 990, 1_000),
        ("-o beginning -c 3", 0, 3),
        ("-o 10 --to 20", 10, 20),
        ("-o s@0 -c 5", 0, 5),
        ("-o s@2020-01-01T00:00:00Z -e", 0, 1_000),
        ("-o beginning -o e@2020-01-01T00:00:00Z", 0, 0),
        ("-o end -e", 0, 0),
    ] {
        let printed = broker.ok(&format!("consume -t t -p 0 {bounds}"));
        assert_eq!(printed, numbers(from, to), "{bounds}");
    }
    assert_eq!(broker.ok("consume -t t -p 1 -o beginning -e"), "");

    broker.ok_with("produce -t t -p 1 -K: -H a=1 -H b=", "key:value\n");
    let formatted = broker.ok(r"consume -t t -p 1 -o beginning -e -f %t/%p/%o:%k=%s[%h]%%\n");
    assert_eq!(formatted, "t/1/0:key=value[a=1,b=]%\n");
    let with_keys = broker.ok("consume -t t -p 1 -o beginning -e -K :");
    assert_eq!(with_keys, "key:value\n");
}

#[test]
fn null_and_empty_stay_apart() {
    let scratch = Scratch::new("null");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok_with("produce -t t -K:", "k:\n");
    broker.ok_with("produce -t t -K: -Z", "k:\n");
    let printed = broker.ok("consume -t t -o beginning -e -Z NULL -f %s(%S)\\n");
    assert_eq!(printed, "(0)\nNULL(-1)\n");
}

#[test]
fn topics_and_configs_change_as_told() {
    let scratch = Scratch::new("alter");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create -t t -p 1 -c segment.bytes=1048576");
    broker.ok("topic alter t -p 3 -c retention.ms=5 --unset segment.bytes");
    let described: Value =
        serde_json::from_str(&broker.ok("topic describe t -o jsonl")).expect("JSON");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(3));
    let names = |described: &str| -> Vec<String> {
        let configs: Vec<Value> = serde_json::from_str(described).expect("JSON");
        let names = configs.iter().filter_map(|it| it["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let configs = "config describe -t t -o json";
    assert_eq!(names(&broker.ok(configs)), ["retention.ms"]);
    broker.ok("config set -t t segment.bytes=2097152");
    broker.ok("config set -t t max.message.bytes=1 --dry-run");
    assert_eq!(
        names(&broker.ok(configs)),
        ["retention.ms", "segment.bytes"]
    );
    broker.ok("config delete -t t retention.ms segment.bytes");
    assert!(names(&broker.ok(configs)).is_empty());
    broker.ok("topic delete t");
    assert_eq!(broker.ok("topic list -o json"), "[]\n");
}

#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let scratch = Scratch::new("codes");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create there");
    for (line, code) in [
        ("topic create there --if-not-exists", 0),
        ("topic create there", 4),
        ("topic create there new", 8),
        ("topic delete new gone", 8),
        ("topic delete gone gone2", 4),
        ("topic delete gone --if-exists", 0),
        ("topic describe gone", 4),
        ("topic create b@d", 2),
        ("topic create", 2),
        ("topic alter there", 2),
        ("topic list -X request.timout.ms=1", 2),
        ("config set -t there no.such.config=1", 2),
        ("config describe -t gone", 4),
        ("config describe -t there no.such.config", 4),
        ("consume -t gone -e", 4),
        ("consume -t there -p 9 -e", 4),
        ("consume -t there -o 7 -e", 4),
        ("consume -t there -o middle", 2),
        ("consume -t there -f %q", 2),
        ("produce -t there -p 9", 0),
        ("produce -t there no-such-file", 4),
        ("cluster health", 0),
        ("topic list -b 127.0.0.1:1 -X default.api.timeout.ms=100", 3),
        ("dump no-such-directory", 4),
    ] {
        let ran = broker.run(line);
        assert_eq!(ran.code, code, "{line}: {}", ran.errors);
        let silent = ran.errors.is_empty();
        assert_eq!(
            silent,
            code == 0,
            "{line} says why, if it failed: {}",
            ran.errors
        );
        assert!(
            !ran.errors.contains('\x1b'),
            "colour where nobody looks: {}",
            ran.errors
        );
    }
    let ran = broker.run_with("produce -t there -p 9", "x\n");
    assert_eq!(ran.code, 2, "no such partition: {}", ran.errors);
    let large = format!("small\n{}\n", "x".repeat(2 << 20));
    let ran = broker.run_with("produce -t there", &large);
    assert_eq!(ran.code, 8, "one of two: {}", ran.errors);
    assert!(ran.errors.contains("line 2: "), "{}", ran.errors);
}

/// A stopped broker's data: a topic with batches enough for an index, and one more partition.
fn stopped_data(scratch: &Scratch) -> PathBuf {
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create t -p 1 -c index.interval.bytes=100");
    let lines = |from: u32| {
        (from..from + 100)
            .map(|it| format!("record {it}\n"))
            .collect::<String>()
    };
    for from in [0, 100, 200] {
        broker.ok_with("produce -t t", &lines(from));
    }
    broker.stop()
}

/// The one file below a directory whose name ends so.
fn find(directory: &Path, ending: &str) -> PathBuf {
    all_files(directory)
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(ending))
        .unwrap_or_else(|| panic!("a {ending} below {}", directory.display()))
}

fn all_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(all_files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("readable");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("writable");
}

fn faults(ran: &Ran) -> Vec<String> {
    let lines = ran.printed.lines().filter(|line| line.contains("FAULT"));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// A file, what is done to it, and what is said of that.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path), String);

#[test]
fn a_dump_of_sound_files_finds_no_fault_and_of_damaged_ones_says_where() {
    let scratch = Scratch::new("damage");
    let data = stopped_data(&scratch);
    let ran = dump(&data, &["--records"]);
    assert_eq!((ran.code, faults(&ran)), (0, Vec::new()), "{}", ran.printed);
    assert!(ran.printed.contains("\"record 299\""), "{}", ran.printed);
    let second = {
        let text = dump(&find(&data, ".log"), &["-o", "jsonl"]).printed;
        let batches = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let positions: Vec<u64> = batches.filter_map(|it| it["position"].as_u64()).collect();
        usize::try_from(positions[1]).expect("small")
    };
    let damages: [Damage<'_>; 7] = [
        (
            ".log",
            &|path| flip(path, second + 70),
            format!("at byte {second}: the batch with base offset 100"),
        ),
        (
            ".log",
            &|path| flip(path, second + 16),
            format!("at byte {second}: no record batch begins here"),
        ),
        (
            ".log",
            &|path| truncate(path, second + 70),
            format!("at byte {second}: a batch of"),
        ),
        (
            ".log",
            &|path| truncate(path, second),
            format!("at byte {second}: the checkpoint says"),
        ),
        (
            ".index",
            &|path| flip(path, 7),
            "no sound batch begins".into(),
        ),
        (
            "checkpoint",
            &|path| flip(path, 30),
            "its checksum does not match".into(),
        ),
        (
            "partition.metadata",
            &|path| flip(path, 30),
            "its checksum does not match".into(),
        ),
    ];
    for (ending, damage, wanted) in damages {
        let copy = scratch.copy(&data, "copy");
        damage(&find(&copy, ending));
        let ran = dump(&copy, &["--detail", "summary"]);
        assert_eq!(ran.code, 7, "{ending}: {}", ran.printed);
        let faults = faults(&ran);
        assert!(
            faults.iter().any(|fault| fault.contains(&wanted)),
            "{wanted}: {faults:?}"
        );
    }
    let copy = scratch.copy(&data, "copy");
    fs::remove_file(find(&copy, ".log")).expect("removed");
    let ran = dump(&copy, &[]);
    assert_eq!(ran.code, 7, "a segment is gone: {}", ran.printed);
}

fn truncate(path: &Path, len: usize) {
    let mut bytes = fs::read(path).expect("readable");
    bytes.truncate(len);
    fs::write(path, bytes).expect("writable");
}

#[test]
fn a_group_is_looked_at_moved_and_deleted() {
    let scratch = Scratch::new("groups");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create orders -p 2");
    broker.ok_with("produce -t orders -p 0", "a\nb\nc\n");
    broker.ok_with("produce -t orders -p 1", "d\n");
    broker.ok("consume -t orders -G readers -o beginning -e");
    for (name, line) in [
        ("group-list", "group list -o json"),
        ("group-describe", "group describe readers -o json"),
        ("group-members", "group members readers -o json"),
        ("group-lag", "group lag readers -o json"),
        (
            "group-reset",
            "group reset readers -t orders --to-earliest -o json",
        ),
    ] {
        assert_snapshot(name, &broker.ok(line));
    }
    let committed = || {
        let rows: Vec<Value> =
            serde_json::from_str(&broker.ok("group lag readers -o json")).expect("JSON");
        let offsets = rows.iter().map(|row| row["committed"].as_i64());
        offsets.collect::<Vec<_>>()
    };
    assert_eq!(committed(), [Some(3), Some(1)], "a dry run changes nothing");
    let file = scratch.0.join("offsets.csv");
    fs::write(&file, "orders,0,1\norders,1,9\n").expect("writable");
    let from_file = format!("--from-file {}", file.display());
    for (to, wanted) in [
        ("--all-topics --to-earliest", [0, 0]),
        ("-t orders:0 --to-offset 2", [2, 0]),
        ("-t orders --shift-by 1", [3, 1]),
        ("-t orders --shift-by -5", [0, 0]),
        ("-t orders --to-datetime 4102444800000", [3, 1]),
        ("-t orders --by-duration 1h", [0, 0]),
        ("-t orders:1 --to-latest", [0, 1]),
        ("-t orders --to-current", [0, 1]),
        (&from_file, [1, 1]),
    ] {
        broker.ok(&format!("group reset readers {to} --execute"));
        assert_eq!(committed(), wanted.map(Some), "{to}");
    }
    let missing = broker.run("group reset readers -t orders:7 --to-latest");
    assert_eq!(missing.code, 4, "{}", missing.errors);
    assert_eq!(broker.run("group reset readers --to-latest").code, 2);

    broker.ok("group delete readers -t orders");
    assert_eq!(committed(), []);
    broker.ok("group delete readers");
    assert_eq!(broker.run("group describe readers").code, 4, "it is gone");
    assert_eq!(broker.run("group delete readers").code, 4);
}

#[test]
fn a_check_names_what_is_damaged_and_a_repair_removes_only_what_is_made_again() {
    let scratch = Scratch::new("repair");
    let data = stopped_data(&scratch);
    let check = |more: &[&str]| {
        let data = data.to_str().expect("text");
        let arguments = [&["check", "--data", data], more].concat();
        run_words(&arguments, None, b"")
    };
    let ran = check(&[]);
    assert_eq!((ran.code, faults(&ran)), (0, Vec::new()), "{}", ran.printed);
    let segment = fs::read(find(&data, ".log")).expect("readable");

    flip(&find(&data, ".index"), 7);
    flip(&find(&data, "checkpoint"), 30);
    for (more, code, wanted) in [
        (&[][..], 7, "no sound batch begins"),
        (&["--repair"], 0, "removed "),
        (&[], 0, " 0 faults"),
    ] {
        let ran = check(more);
        assert_eq!(ran.code, code, "{more:?}: {}", ran.printed);
        assert!(ran.printed.contains(wanted), "{more:?}: {}", ran.printed);
    }
    let broker = Broker::start(&data);
    let refused = check(&["--repair"]);
    assert_eq!(refused.code, 4, "a broker runs: {}", refused.printed);
    let read = broker.ok("consume -t t -o beginning -e");
    assert_eq!(read.lines().count(), 300, "the broker makes them again");
    broker.stop();

    flip(&find(&data, ".log"), 100);
    let damaged = fs::read(find(&data, ".log")).expect("readable");
    let ran = check(&["--repair"]);
    assert_eq!(ran.code, 7, "{}", ran.printed);
    let left = fs::read(find(&data, ".log")).expect("still there");
    assert!(left == damaged && left != segment, "no record is touched");
}

#[test]
fn what_only_the_write_ahead_log_holds_is_no_loss_until_that_is_damaged_too() {
    let scratch = Scratch::new("wal");
    let broker = Broker::start(&scratch.0.join("data"));
    broker.ok("topic create t -p 1");
    for _ in 0..3 {
        broker.ok_with("produce -t t", "some record\n");
    }
    let data = broker.kill();
    let ran = dump(&data, &[]);
    assert_eq!((ran.code, faults(&ran)), (0, Vec::new()), "{}", ran.printed);
    assert!(
        ran.printed.contains("in the write-ahead log only"),
        "{}",
        ran.printed
    );

    let extent = find(&data, "00000000.extent");
    // The last but one commit is known to be durable by the last.
    let text = dump(&extent, &["-o", "jsonl"]).printed;
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let commits: Vec<Value> = rows.filter(|row| row["kind"] == "commit").collect();
    let damaged = &commits[commits.len() - 2];
    let at = damaged["position"].as_u64().expect("a position");
    flip(&extent, usize::try_from(at).expect("small") + 120);
    for path in [&data, &extent] {
        let ran = dump(path, &[]);
        let wanted = format!("at byte {at}: commit {} was durable", damaged["sequence"]);
        let faults = faults(&ran);
        assert_eq!(ran.code, 7, "{}", ran.printed);
        assert!(
            faults.iter().any(|fault| fault.contains(&wanted)),
            "{wanted}: {faults:?}"
        );
    }
}

#[test]
fn no_damage_breaks_a_dump() {
    let scratch = Scratch::new("hostile");
    let data = stopped_data(&scratch);
    let broker = Broker::start(&data);
    broker.ok_with("produce -t t", "the write-ahead log has this\n");
    let data = broker.kill();
    let mut choices = 7_u64;
    let mut below = move |bound: usize| {
        choices = choices
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(choices >> 33).expect("31 bits") % bound.max(1)
    };
    let directory = scratch.0.join("one");
    for path in all_files(&data.join("logs"))
        .into_iter()
        .chain(all_files(&data.join("wal")))
    {
        let mut sound = fs::read(&path).expect("readable");
        // The first blocks of an extent hold all that there is.
        sound.truncate(64 << 10);
        let _ = fs::remove_dir_all(&directory);
        let within = directory.join(
            path.parent()
                .and_then(Path::file_name)
                .expect("a directory"),
        );
        fs::create_dir_all(&within).expect("made");
        let copy = within.join(path.file_name().expect("a name"));
        for round in 0..12 {
            let mut bytes = sound.clone();
            match round % 3 {
                0 => bytes.truncate(below(sound.len())),
                _ => (0..=round).for_each(|_| {
                    let (at, len) = (below(bytes.len()), bytes.len().min(160));
                    // Mostly in the headers, where lengths and counts are.
                    let at = if round % 3 == 1 { at % len.max(1) } else { at };
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = u8::try_from(below(256)).expect("a byte");
                    }
                }),
            }
            fs::write(&copy, bytes).expect("written");
            let ran = dump(&copy, &["--records"]);
            assert!(
                [0, 7].contains(&ran.code),
                "{} round {round}: {}",
                copy.display(),
                ran.errors
            );
            assert!(
                !ran.errors.contains("panicked"),
                "{} round {round}: {}",
                copy.display(),
                ran.errors
            );
        }
    }
}

#[test]
fn a_dump_in_json_keeps_its_shape() {
    let scratch = Scratch::new("shape");
    let mut segment = Vec::new();
    for (base, producer) in [(5, -1), (7, 9)] {
        let mut batch = BatchBuilder::new(Compression::None);
        if producer >= 0 {
            batch = batch.producer(producer, 1, 40);
        }
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
        batch.push(1_000, Some(b"key"), Some(b"value"), &headers);
        batch.push(1_001, None, Some(&[0xff, 0x00]), &[]);
        let mut bytes = batch.finish().expect("a batch").to_vec();
        stamp(&mut bytes, base, 3);
        segment.extend(bytes);
    }
    let path = scratch.0.join("00000000000000000005.log");
    fs::write(&path, &segment).expect("written");
    let half = u32::try_from(segment.len() / 2).expect("small");
    let index = [3_u32.to_be_bytes(), half.to_be_bytes()].concat();
    fs::write(path.with_extension("index"), index).expect("written");
    let times = [&1_001_i64.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    fs::write(path.with_extension("timeindex"), times).expect("written");

    let ran = dump(&path, &["--records", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.printed);
    assert_snapshot("dump-segment", &ran.printed);
    for ending in ["index", "timeindex"] {
        let ran = dump(&path.with_extension(ending), &["-o", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.printed);
        assert_snapshot(&format!("dump-{ending}"), &ran.printed);
    }
    segment.truncate(segment.len() - 1);
    fs::write(&path, &segment).expect("written");
    let ran = dump(&path, &["-o", "json"]);
    assert_eq!(ran.code, 7, "{}", ran.printed);
    assert_snapshot("dump-damaged", &ran.printed);
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let scratch = Scratch::new("man");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(&format!("completions {shell}"), None, b"");
        assert_eq!(ran.code, 0);
        assert!(
            ran.printed.contains("consume") && ran.printed.contains("brokers"),
            "{shell}"
        );
    }
    let ran = run("man", None, b"");
    assert!(ran.printed.contains(".TH corelog 1"), "{}", ran.printed);
    let pages = scratch.0.to_str().expect("UTF-8");
    assert_eq!(run(&format!("man {pages}"), None, b"").code, 0);
    for page in ["corelog.1", "corelog-topic-create.1", "corelog-dump.1"] {
        assert!(scratch.0.join(page).exists(), "{page}");
    }
}
