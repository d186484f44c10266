//! Lays a file, the environment and flags over the defaults, keeps where each value came from, and
//! collects all that is wrong on the way. Knows the shape of settings, not what they are for.

use std::path::{Path, PathBuf};

use logic::cluster::config::units;
use toml::Value;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Faults, Origin, nearest};
use super::{DEFAULTS, Settings, rules};

/// The section whose keys are Kafka's names for the defaults of topic configs.
const KAFKA: &str = "kafka";
/// What the environment's names begin with.
const PREFIX: &str = "CORELOG_";

/// What lies over the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file given by `--config`, with its text.
    pub file: Option<(PathBuf, String)>,
    /// The environment's variables, all of them.
    pub environment: Vec<(String, String)>,
    /// The flags that were given.
    pub flags: Vec<Flag>,
}

/// A setting given by a flag.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As it is written: `--listen`.
    pub name: &'static str,
    /// The section of the setting that it sets.
    pub section: &'static str,
    /// The setting's key.
    pub key: &'static str,
    /// The value.
    pub value: String,
}

/// One setting as it is in force.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its section.
    pub section: String,
    /// Its key, as `config/corelog.toml` spells it.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where the value came from.
    pub origin: Origin,
}

/// All settings as they are in force, in the order of `config/corelog.toml`.
#[derive(Clone, Debug)]
pub struct Effective {
    entries: Vec<Entry>,
}

/// A key with its value, as a document has them.
struct Item {
    section: String,
    key: String,
    value: Value,
    line: usize,
}

impl Sources {
    /// Reads the file, if there is one, and this process's environment.
    ///
    /// # Errors
    /// One fault when the file cannot be read.
    pub fn read(file: Option<&Path>, flags: Vec<Flag>) -> Result<Self, Faults> {
        let file = match file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Faults(vec![Fault {
                        origin: Origin::Flag("--config"),
                        message: format!("{} cannot be read: {error}", path.display()),
                        nearest: None,
                    }])
                })?;
                Some((path.to_owned(), text))
            }
        };
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| {
                let value = value.to_string_lossy().into_owned();
                Some((name.into_string().ok()?, value))
            })
            .collect();
        Ok(Self {
            file,
            environment,
            flags,
        })
    }
}

impl Effective {
    /// Lays the sources over the defaults.
    ///
    /// # Errors
    /// Every fault of every source.
    pub fn load(sources: &Sources) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let defaults = items(DEFAULTS, &mut faults, &Origin::Default);
        let entries = defaults.into_iter().map(|item| Entry {
            value: if item.section == KAFKA {
                Value::String(scalar_text(&item.value))
            } else {
                item.value
            },
            section: item.section,
            key: item.key,
            origin: Origin::Default(item.line),
        });
        let entries = entries.collect();
        let mut effective = Self { entries };
        if let Some((path, text)) = &sources.file {
            let origin = |line| Origin::File(path.clone(), line);
            for item in items(text, &mut faults, &origin) {
                let line = origin(item.line);
                if let Err(fault) = effective.set(&item.section, &item.key, Ok(item.value), line) {
                    faults.push(fault);
                }
            }
        }
        for (name, value) in &sources.environment {
            if let Err(fault) = effective.set_variable(name, value) {
                faults.push(fault);
            }
        }
        for flag in &sources.flags {
            let origin = Origin::Flag(flag.name);
            let set = effective.set(flag.section, flag.key, Err(flag.value.as_str()), origin);
            if let Err(fault) = set {
                faults.push(fault);
            }
        }
        // Settings are compared with each other only when each is right by itself.
        if faults.is_empty() {
            faults.extend(effective.check_together());
        }
        if faults.is_empty() {
            Ok(effective)
        } else {
            Err(Faults(faults))
        }
    }

    /// Every setting.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The settings in the broker's own form.
    ///
    /// # Errors
    /// Those that a rule let pass and the form does not, such as a host that stopped resolving.
    pub fn settings(&self) -> Result<Settings, Faults> {
        let mut document = toml::Table::new();
        document.insert(KAFKA.to_owned(), Value::Table(toml::Table::new()));
        for entry in &self.entries {
            // Only what was set counts as set: the rest is the topic configs' own default.
            if entry.section == KAFKA && matches!(entry.origin, Origin::Default(_)) {
                continue;
            }
            let section = document
                .entry(entry.section.clone())
                .or_insert_with(|| Value::Table(toml::Table::new()));
            let section = section.as_table_mut().expect("only tables are put in here");
            section.insert(entry.key.clone(), entry.value.clone());
        }
        document.try_into().map_err(|error: toml::de::Error| {
            Faults(vec![Fault {
                origin: Origin::Default(0),
                message: error.message().to_owned(),
                nearest: None,
            }])
        })
    }

    /// The settings as a document that `--config` takes, with each value's origin if wanted.
    pub fn show(&self, with_origin: bool) -> String {
        let mut text = String::new();
        let mut section = "";
        for entry in &self.entries {
            if entry.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = &entry.section;
                text.push_str(&format!("{gap}[{section}]\n"));
            }
            let value = match &entry.value {
                Value::String(kept) if section == KAFKA && is_bare(kept) => kept.clone(),
                other => other.to_string(),
            };
            let line = if section == KAFKA {
                format!("\"{}\" = {value}", entry.key)
            } else {
                format!("{} = {value}", entry.key)
            };
            if with_origin {
                text.push_str(&format!("{line:<56} # {}\n", entry.origin));
            } else {
                text.push_str(&format!("{line}\n"));
            }
        }
        text
    }

    fn set_variable(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        // Without the two underscores it is not ours: container platforms put CORELOG_PORT and its
        // like into the environment of everything beside a service called corelog.
        let Some((section, key)) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once("__"))
        else {
            return Ok(());
        };
        let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
        let origin = Origin::Environment(name.to_owned());
        self.set(&section, &key, Err(value), origin)
    }

    /// Sets one value: `Ok` as a document has it, `Err` as text of a flag or variable.
    fn set(
        &mut self,
        section: &str,
        key: &str,
        value: Result<Value, &str>,
        origin: Origin,
    ) -> Result<(), Fault> {
        let fault = |message: String| Fault {
            origin: origin.clone(),
            message,
            nearest: None,
        };
        let Some(index) = self
            .find(section, key)
            .or_else(|| self.coarser(section, key))
        else {
            let (message, nearest) = self.unknown(section, key);
            let origin = origin.clone();
            return Err(Fault {
                origin,
                message,
                nearest,
            });
        };
        let entry = &mut self.entries[index];
        let named = |problem: String| fault(format!("{}.{}: {problem}", entry.section, entry.key));
        if entry.origin.same_source(&origin) {
            return Err(named(format!("set twice, also by {}", entry.origin)));
        }
        let value = if entry.section == KAFKA {
            let text = match &value {
                Ok(Value::Array(_) | Value::Table(_) | Value::Datetime(_)) => {
                    return Err(named("must be a single value".to_owned()));
                }
                Ok(value) => scalar_text(value),
                Err(text) => (*text).to_owned(),
            };
            let kept = rules::check_topic_default(&entry.key, &text).map_err(named)?;
            Value::String(kept)
        } else {
            let rule = rules::find(&entry.section, &entry.key);
            let rule = rule.expect("a test holds that every setting has a rule");
            let value = match value {
                Ok(value) => value,
                Err(text) => rule.read(text).map_err(named)?,
            };
            rule.check(&value).map_err(named)?;
            value
        };
        entry.value = value;
        entry.origin = origin;
        Ok(())
    }

    /// The setting of this section and key, however its key is spelled, or by Kafka's name for it.
    fn find(&self, section: &str, key: &str) -> Option<usize> {
        let wanted = plain(key);
        let aliased = rules::ALIASES
            .iter()
            .find(|alias| section == KAFKA && plain(alias.0) == wanted);
        let (section, wanted) = match aliased {
            Some((_, section, key)) => (*section, (*key).to_owned()),
            None => (section, wanted),
        };
        self.entries
            .iter()
            .position(|entry| entry.section == section && plain(&entry.key) == wanted)
    }

    /// A place for one of Kafka's older names in coarser units, which no default has.
    fn coarser(&mut self, section: &str, key: &str) -> Option<usize> {
        let wanted = plain(key);
        let coarser = units::COARSER
            .iter()
            .find(|coarser| section == KAFKA && plain(coarser.name) == wanted)?;
        self.entries.push(Entry {
            section: section.to_owned(),
            key: coarser.name.to_owned(),
            value: Value::String(String::new()),
            origin: Origin::Default(0),
        });
        Some(self.entries.len() - 1)
    }

    /// What to say of a setting that does not exist, and what was probably meant.
    fn unknown(&self, section: &str, key: &str) -> (String, Option<String>) {
        let sections = self.entries.iter().map(|entry| entry.section.as_str());
        let aliases = rules::ALIASES.iter().map(|alias| (KAFKA, alias.0));
        let aliases = aliases.chain(units::COARSER.iter().map(|coarser| (KAFKA, coarser.name)));
        let entries = self.entries.iter();
        let keys = entries.map(|entry| (entry.section.as_str(), entry.key.as_str()));
        let keys: Vec<(&str, &str)> = keys.chain(aliases).collect();
        // A setting that is merely in the wrong section is recognised by its key.
        let everywhere = || {
            let found = nearest(key, keys.iter().map(|(_, key)| *key))?;
            let (section, key) = keys.iter().find(|(_, key)| *key == found)?;
            Some(format!("`{key}` in [{section}]"))
        };
        if !sections.clone().any(|known| known == section) {
            let meant = nearest(section, sections).map(|near| format!("[{near}]"));
            let message = if key.is_empty() {
                format!("unknown section [{section}]")
            } else {
                format!("unknown section [{section}], for `{key}`")
            };
            return (message, meant.or_else(everywhere));
        }
        let here = keys.iter().filter(|(known, _)| *known == section);
        let meant = nearest(key, here.map(|(_, key)| *key)).map(|near| format!("`{near}`"));
        let message = format!("unknown setting `{key}` in [{section}]");
        (message, meant.or_else(everywhere))
    }

    fn check_together(&self) -> Vec<Fault> {
        let find = |section: &str, key: &str| {
            let found = self.find(section, key).map(|index| &self.entries[index]);
            found.expect("rules name settings that exist; a test holds it")
        };
        let number = |section: &str, key: &str| find(section, key).value.as_integer().unwrap_or(0);
        let faults = rules::check_together(number).into_iter();
        let faults = faults.map(|(section, key, problem)| Fault {
            origin: find(section, key).origin.clone(),
            message: format!("{section}.{key}: {problem}"),
            nearest: None,
        });
        faults.collect()
    }
}

/// Every value of a document, in its order; what is not one becomes a fault.
fn items(text: &str, faults: &mut Vec<Fault>, origin: &dyn Fn(usize) -> Origin) -> Vec<Item> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        faults.push(Fault {
            origin: origin(line(at)),
            message: error.message().to_owned(),
            nearest: None,
        });
    }
    let mut items = Vec::new();
    for (section, value) in document.get_ref() {
        let name = section.get_ref().to_string();
        let at = line(section.span().start);
        match value.get_ref() {
            DeValue::Table(table) => flatten(&name, "", table, &line, &mut items),
            _ => faults.push(Fault {
                origin: origin(at),
                message: format!("`{name}` stands outside any section"),
                nearest: nearest(&name, rules::RULES.iter().map(|rule| rule.1)).and_then(|key| {
                    let rule = rules::RULES.iter().find(|rule| rule.1 == key)?;
                    Some(format!("`{key}` in [{}]", rule.0))
                }),
            }),
        }
    }
    items.sort_by_key(|item| item.line);
    items
}

/// A table's values, with the keys of tables inside it joined by dots: an unquoted
/// `log.segment.bytes` is such a table to TOML.
fn flatten(
    section: &str,
    path: &str,
    table: &DeTable<'_>,
    line: &impl Fn(usize) -> usize,
    items: &mut Vec<Item>,
) {
    for (key, value) in table {
        let dot = if path.is_empty() { "" } else { "." };
        let name = format!("{path}{dot}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            flatten(section, &name, inner, line, items);
            continue;
        }
        items.push(Item {
            section: section.to_owned(),
            key: name,
            value: owned(value.get_ref()),
            line: line(key.span().start),
        });
    }
}

fn owned(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            let parsed = i64::from_str_radix(digits, number.radix());
            // Beyond 64 bits it is kept as text, which no rule for numbers takes.
            parsed.map_or_else(|_| Value::String(digits.to_owned()), Value::Integer)
        }
        DeValue::Float(number) => {
            let text = number.as_str();
            let parsed = text.parse();
            parsed.map_or_else(|_| Value::String(text.to_owned()), Value::Float)
        }
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(_) => Value::Array(Vec::new()),
        DeValue::Table(_) => Value::Table(toml::Table::new()),
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a text is a number or a truth value, and so needs no quotes.
fn is_bare(text: &str) -> bool {
    text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok() || {
        text.contains('.') && text.parse::<f64>().is_ok_and(f64::is_finite)
    }
}

fn plain(key: &str) -> String {
    key.to_ascii_lowercase().replace(['.', '-'], "_")
}
