//! Merges the layers of configuration: later layers override earlier ones, and each value keeps its
//! origin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::check::check;
use super::node::{Node, RawValue, SetError, SettingDescription};
use super::{Config, show};

/// The default settings file.
const DEFAULT_FILE: &str = "terse.toml";
/// The largest size of a settings file or a secret file.
const MAX_FILE_SIZE: u64 = 1 << 20;
/// Variables that begin with `TERSE_` but are not settings: those of the command line.
const NOT_SETTINGS: [&str; 4] = ["TERSE_CONFIG", "TERSE_SERVER", "TERSE_KEY", "TERSE_KEY_FILE"];

/// The sources of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    /// A settings file that must exist. If `None`, `terse.toml` of the current folder is read if
    /// there is one.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
    /// Names and values from the command line.
    pub flags: Vec<(String, String)>,
}

/// The layer that set a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SettingOrigin {
    /// Not set: the default.
    Default,
    /// A settings file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Why the configuration could not be loaded. Names the layer and the setting.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{what} cannot be read: {path}")]
    Unreadable {
        /// What the file is for.
        what: String,
        /// The path.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The settings file is not TOML.
    #[error("{path} is not valid TOML: {detail}")]
    Syntax {
        /// The file.
        path: String,
        /// The line, and the parser's message.
        detail: String,
    },
    /// A setting with an unknown name.
    #[error("{origin}: there is no setting \
        {name}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// The layer.
        origin: String,
        /// The name.
        name: String,
        /// A similar name, if there is one.
        nearest: Option<String>,
    },
    /// An invalid value.
    #[error("{origin}: {name}{}{detail}", if detail.starts_with("must ") { " " } else { ": " })]
    Invalid {
        /// The layer.
        origin: String,
        /// The setting.
        name: String,
        /// Why the value is invalid.
        detail: String,
    },
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub config: Config,
    /// The origin of each setting; settings that are absent here have their default.
    origins: BTreeMap<String, SettingOrigin>,
}

impl LoadedConfig {
    /// The origin of a setting.
    pub fn origin(&self, name: &str) -> SettingOrigin {
        self.origins.get(name).cloned().unwrap_or(SettingOrigin::Default)
    }

    /// The configuration as TOML, without secrets, with the origin of each value as a comment.
    pub fn to_toml(&self) -> String {
        show::toml(self)
    }

    /// The configuration as JSON, without secrets.
    pub fn to_json(&self) -> serde_json::Value {
        show::json(self)
    }
}

pub(crate) fn load(sources: &ConfigSources) -> Result<LoadedConfig, ConfigError> {
    let mut loaded = LoadedConfig { config: Config::default(), origins: BTreeMap::new() };
    let names = known();
    if let Some((path, table)) = read_file(sources.file.as_deref())? {
        let mut leaves = Vec::new();
        flatten(String::new(), toml::Value::Table(table), &mut leaves);
        for (name, value) in leaves {
            set(
                &mut loaded,
                &names,
                &name,
                RawValue::Toml(value),
                SettingOrigin::File(path.clone()),
            )?;
        }
    }
    for (name, text, variable) in read_env(&sources.env, &names)? {
        set(&mut loaded, &names, &name, RawValue::Text(text), SettingOrigin::Env(variable))?;
    }
    for (name, text) in &sources.flags {
        set(&mut loaded, &names, name, RawValue::Text(text.clone()), SettingOrigin::Flag)?;
    }
    check(&loaded.config).map_err(|(name, detail)| ConfigError::Invalid {
        origin: loaded.origin(name).to_string(),
        name: name.into(),
        detail,
    })?;
    Ok(loaded)
}

fn known() -> Vec<SettingDescription> {
    let mut all = Vec::new();
    Config::default().describe("", "", &mut all);
    all
}

fn set(
    loaded: &mut LoadedConfig,
    names: &[SettingDescription],
    name: &str,
    given: RawValue,
    origin: SettingOrigin,
) -> Result<(), ConfigError> {
    let path: Vec<&str> = name.split('.').collect();
    match loaded.config.set(&path, given) {
        Ok(()) => {
            loaded.origins.insert(name.to_owned(), origin);
            Ok(())
        }
        Err(SetError::Unknown) => Err(ConfigError::Unknown {
            origin: origin.to_string(),
            name: name.to_owned(),
            nearest: nearest(name, names.iter().map(|known| known.name.clone())),
        }),
        Err(SetError::Invalid(detail)) => {
            Err(ConfigError::Invalid { origin: origin.to_string(), name: name.to_owned(), detail })
        }
    }
}

fn read_file(named: Option<&Path>) -> Result<Option<(PathBuf, toml::Table)>, ConfigError> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    if named.is_none() && !path.exists() {
        return Ok(None);
    }
    let shown = path.display().to_string();
    let text = read_text_file(path).map_err(|source| ConfigError::Unreadable {
        what: "the settings file".into(),
        path: shown.clone(),
        source,
    })?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        // Only the parser's message and the line number: the line itself may contain a secret.
        ConfigError::Syntax {
            path: shown,
            detail: format!("line {line}: {}", error.message().replace('\n', ", ")),
        }
    })?;
    Ok(Some((path.to_owned(), table)))
}

fn read_text_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_SIZE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "longer than 1 MiB"));
    }
    Ok(text)
}

fn flatten(name: String, value: toml::Value, leaves: &mut Vec<(String, toml::Value)>) {
    match value {
        toml::Value::Table(table) if !table.is_empty() => {
            for (key, value) in table {
                flatten(super::node::join(&name, &key), value, leaves);
            }
        }
        // An empty file sets nothing.
        toml::Value::Table(_) if name.is_empty() => {}
        value => leaves.push((name, value)),
    }
}

type Found = Vec<(String, String, String)>;

/// Reads the environment: setting, value and variable of each `TERSE_` variable.
fn read_env(
    env: &[(OsString, OsString)],
    names: &[SettingDescription],
) -> Result<Found, ConfigError> {
    let by_variable: BTreeMap<String, &SettingDescription> =
        names.iter().map(|known| (known.env_name(), known)).collect();
    let mut found: Found = Vec::new();
    for (variable, value) in env {
        let Some(variable) = variable.to_str().filter(|name| name.starts_with("TERSE_")) else {
            continue;
        };
        let text = value.to_str();
        if NOT_SETTINGS.contains(&variable)
            || variable.starts_with("TERSE_TEST_")
            || is_from_kubernetes(variable, text)
        {
            continue;
        }
        let (known, from_file) = match by_variable.get(variable) {
            Some(known) => (known, false),
            None => match variable.strip_suffix("_FILE").and_then(|name| by_variable.get(name)) {
                Some(known) => (known, true),
                None => {
                    let nearest = nearest(variable, by_variable.keys().cloned());
                    return Err(ConfigError::Unknown {
                        origin: "environment".into(),
                        name: variable.into(),
                        nearest,
                    });
                }
            },
        };
        let invalid = |detail: String| ConfigError::Invalid {
            origin: variable.into(),
            name: known.name.clone(),
            detail,
        };
        let text = text.ok_or_else(|| invalid("not valid UTF-8".into()))?;
        let text = if from_file {
            let read = read_text_file(Path::new(text));
            let text = read.map_err(|source| ConfigError::Unreadable {
                what: format!("the file of {variable}"),
                path: text.into(),
                source,
            })?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        } else {
            text.to_owned()
        };
        if found.iter().any(|(name, ..)| *name == known.name) {
            return Err(invalid(format!(
                "{} and {}_FILE are both set",
                known.env_name(),
                known.env_name()
            )));
        }
        found.push((known.name.clone(), text, variable.to_owned()));
    }
    Ok(found)
}

/// Whether Kubernetes set the variable. It describes every service to every container: a service
/// named `terse` becomes `TERSE_SERVICE_HOST`, `TERSE_PORT` and so on.
fn is_from_kubernetes(variable: &str, value: Option<&str>) -> bool {
    if let Some((_, rest)) = variable.rsplit_once("_SERVICE_") {
        return rest == "HOST" || rest == "PORT" || rest.starts_with("PORT_");
    }
    let is_address = value.is_some_and(|value| {
        ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
    });
    match variable.rsplit_once("_PORT_") {
        Some((_, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
                rest.strip_prefix(protocol)
                    .is_some_and(|rest| matches!(rest, "" | "_PROTO" | "_PORT" | "_ADDR"))
            })
        }
        // `TERSE_PORT_8080_TCP_PORT` splits at its last `_PORT`, with nothing after it.
        None => variable.ends_with("_PORT") && is_address,
    }
}

/// The most similar name, or the same name in another section.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    const SAME_NAME_ELSEWHERE: usize = 3;
    let lower = name.to_lowercase();
    let tail = |name: &str| name.rsplit('.').next().map(str::to_owned);
    names
        .filter_map(|known| {
            let away = distance(&lower, &known.to_lowercase());
            if away <= 2.max(known.len() / 8) {
                Some((away, away, known))
            } else {
                (tail(&known) == tail(&lower)).then_some((SAME_NAME_ELSEWHERE, away, known))
            }
        })
        .min()
        .map(|(_, _, known)| known)
}

/// The edit distance: how many letters to add, remove or change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(200).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
