//! Apache Kafka's jars: fetched by Maven, and started as Kafka's own scripts start them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Maven is told.
const POM: &str = include_str!("pom.xml");
/// What `kafka-run-class` gives to every JVM.
const JVM_OPTIONS: &[&str] = &[
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];
/// By what the client library's jar is called, which has the version in it.
const CLIENTS: &str = "kafka-clients-";

/// A directory of jars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jars {
    directory: PathBuf,
    /// Which Kafka it is.
    pub version: String,
}

impl Jars {
    /// The jars of a directory.
    ///
    /// # Errors
    /// When it holds no Kafka, or more than one, in words.
    pub fn of(directory: &Path) -> Result<Self, String> {
        let name = directory.display();
        let entries =
            fs::read_dir(directory).map_err(|error| format!("{name} cannot be read: {error}"))?;
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut versions: Vec<String> = files
            .filter_map(|file| {
                let version = file.strip_prefix(CLIENTS)?.strip_suffix(".jar")?;
                Some(version.to_owned())
            })
            .collect();
        match (versions.pop(), versions.len()) {
            (Some(version), 0) => Ok(Self {
                directory: directory.to_owned(),
                version,
            }),
            (None, _) => Err(format!("{name} holds no {CLIENTS}*.jar")),
            _ => Err(format!(
                "{name} holds several versions of Kafka: remove it and start again"
            )),
        }
    }

    /// Lets Maven resolve a version (the newest 4.x when it is empty) and copy what is missing below a
    /// directory.
    ///
    /// # Errors
    /// When Maven fails, with its words.
    pub fn fetch(below: &Path, version: &str) -> Result<Self, String> {
        // Beside each other, two versions would both be on the class path.
        let directory = below.join(if version.is_empty() {
            "newest"
        } else {
            version
        });
        let pom = below.join("pom.xml");
        fs::create_dir_all(below)
            .and_then(|()| fs::write(&pom, POM))
            .map_err(|error| format!("{} cannot be written: {error}", pom.display()))?;
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(&pom);
        maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(option("-DoutputDirectory=", &directory));
        if !version.is_empty() {
            maven.arg(format!("-Dkafka.version={version}"));
        }
        let done = maven.output().map_err(|error| {
            format!("mvn cannot be started: {error}; install Maven, or name the jars with --jars")
        })?;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stdout);
            return Err(format!("Maven failed:\n{words}"));
        }
        Self::of(&directory)
    }

    /// The command that runs a main class with all the jars.
    pub fn java(&self, heap: &[&str], main: &str) -> Command {
        let mut java = Command::new("java");
        java.args(heap).args(JVM_OPTIONS);
        java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=info");
        java.arg("-cp").arg(self.directory.join("*")).arg(main);
        java
    }
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_jars_names_its_version_and_two_are_refused() {
        let directory = std::env::temp_dir().join(format!("loadgen-jars-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        assert!(Jars::of(&directory).is_err());
        let add = |name: &str| fs::write(directory.join(name), []).expect("written");
        add("kafka-clients-4.1.0.jar");
        add("slf4j-simple-1.7.36.jar");
        let jars = Jars::of(&directory).expect("one version");
        assert_eq!(jars.version, "4.1.0");
        add("kafka-clients-4.2.0.jar");
        assert!(Jars::of(&directory).is_err());
        fs::remove_dir_all(&directory).expect("removed");
    }
}
