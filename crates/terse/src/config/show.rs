//! Shows the configuration as TOML and JSON.

use std::fmt::Write as _;

use terse_core::SettingInForce;

use super::layers::{LoadedConfig, SettingOrigin};
use super::node::{Node, SettingDescription};
use super::{BaseUrl, ByteSize, Config};
use crate::memory_plan::MemoryPlan;

/// Every setting, with derived values filled in.
fn in_force(config: &Config) -> Vec<SettingDescription> {
    let mut config = config.clone();
    if config.base_url.is_none() {
        config.base_url = config.base_url().as_str().parse::<BaseUrl>().ok();
    }
    config.cache.size = Some(ByteSize::of(MemoryPlan::of(&config).links));
    let mut all = Vec::new();
    config.describe("", "", &mut all);
    all
}

impl Config {
    /// The names of settings that differ from those of another configuration.
    pub(crate) fn changed_since(&self, other: &Self) -> Vec<String> {
        let mut names = Vec::new();
        self.differences(other, "", &mut names);
        names
    }

    /// The settings in force, secrets hidden.
    pub(crate) fn settings_in_force(&self) -> Vec<SettingInForce> {
        let usual = in_force(&Config::default());
        let shown = |setting: &SettingDescription| {
            setting.value.as_ref().map(ToString::to_string).unwrap_or_default()
        };
        let all = in_force(self).into_iter().map(|setting| {
            let usual = usual.iter().find(|usual| usual.name == setting.name);
            let value = shown(&setting);
            let is_changed = usual.is_none_or(|usual| shown(usual) != value);
            SettingInForce { name: setting.name, value, is_changed }
        });
        all.collect()
    }
}

pub(crate) fn toml(loaded: &LoadedConfig) -> String {
    let mut text = String::new();
    let mut section = "";
    let all = in_force(&loaded.config);
    for setting in &all {
        let (inside, name) = setting.name.rsplit_once('.').unwrap_or(("", &setting.name));
        if inside != section {
            section = inside;
            let _ = write!(text, "\n[{section}]\n");
        }
        let remark = match loaded.origin(&setting.name) {
            SettingOrigin::Default => String::new(),
            // A path or a variable never holds a line break that could end the comment.
            origin => format!(" # {}", origin.to_string().replace(char::is_control, "?")),
        };
        let _ = match &setting.value {
            Some(value) => writeln!(text, "{name} = {value}{remark}"),
            None => writeln!(text, "# {name} is not set{}", remark.replace(" #", ":")),
        };
    }
    text
}

pub(crate) fn json(loaded: &LoadedConfig) -> serde_json::Value {
    let mut settings = serde_json::Map::new();
    let mut origins = serde_json::Map::new();
    for setting in in_force(&loaded.config) {
        let value = setting.value.map_or(serde_json::Value::Null, plain);
        let origin = loaded.origin(&setting.name).to_string();
        let target = match setting.name.split_once('.') {
            None => &mut settings,
            Some((section, _)) => {
                let inside = settings.entry(section).or_insert_with(|| serde_json::json!({}));
                inside.as_object_mut().expect("a section is an object: no setting has its name")
            }
        };
        let name = setting.name.rsplit('.').next().unwrap_or(&setting.name);
        target.insert(name.to_owned(), value);
        origins.insert(setting.name, origin.into());
    }
    serde_json::json!({ "settings": settings, "origins": origins })
}

fn plain(value: toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Array(items) => items.into_iter().map(plain).collect(),
        other => other.to_string().into(),
    }
}

/// The settings that most servers need.
const FIRST: [&str; 6] = [
    "listen",
    "data_dir",
    "base_url",
    "trusted_proxies",
    "anonymous.create",
    "operator.abuse_contact",
];

pub(crate) fn markdown() -> String {
    let mut all = Vec::new();
    Config::default().describe("", "", &mut all);
    let (first, rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|setting| FIRST.contains(&setting.name.as_str()));
    format!(
        "## The six that most servers need\n\n{}\n## All others\n\n{}",
        table(&first),
        table(&rest)
    )
}

fn table(settings: &[SettingDescription]) -> String {
    let mut text = String::from(
        "| setting | variable | kind | default | what it does |\n|---|---|---|---|---|\n",
    );
    for setting in settings {
        let default = match &setting.value {
            Some(value) => format!("`{value}`"),
            None => "–".into(),
        };
        let about =
            setting.about.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {default} | {about} |",
            setting.name,
            setting.env_name(),
            setting.kind
        );
    }
    text
}
