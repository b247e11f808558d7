//! A setting: it has a name, a description and a default, and can be read from text or TOML.

use std::fmt;

/// A value from one of the layers.
#[derive(Clone, Debug)]
pub(crate) enum RawValue {
    /// From an environment variable, a file that a variable names, or a flag.
    Text(String),
    /// From `terse.toml`.
    Toml(toml::Value),
}

/// Why a value was refused.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum SetError {
    /// There is no setting of this name.
    Unknown,
    /// The setting exists, but the value is invalid.
    Invalid(String),
}

/// A setting, described for display.
#[derive(Clone, Debug)]
pub(crate) struct SettingDescription {
    /// The name, such as `cache.ttl`.
    pub(crate) name: String,
    /// Its doc comment.
    pub(crate) about: &'static str,
    /// The kind of value.
    pub(crate) kind: &'static str,
    /// Its value, secrets hidden; `None` if it is not set.
    pub(crate) value: Option<toml::Value>,
}

impl SettingDescription {
    /// The environment variable, such as `TERSE_CACHE__TTL`.
    pub(crate) fn env_name(&self) -> String {
        format!("TERSE_{}", self.name.replace('.', "__").to_uppercase())
    }
}

/// A setting or a section of settings.
pub(crate) trait Node {
    /// Sets the value at a path below this node.
    fn set(&mut self, path: &[&str], value: RawValue) -> Result<(), SetError>;
    /// Appends this setting, or the settings in this section, to a list.
    fn describe(&self, name: &str, about: &'static str, out: &mut Vec<SettingDescription>);
    /// Appends the names of the settings here that have another value in `other`.
    fn differences(&self, other: &Self, name: &str, out: &mut Vec<String>);
}

/// A single setting.
pub(crate) trait Leaf: Sized + PartialEq {
    /// The kind of value, in one or two words.
    const KIND: &'static str;
    /// Reads a value. The message never repeats a secret.
    fn read(given: RawValue) -> Result<Self, String>;
    /// The value, or `None` for a secret.
    fn show(&self) -> Option<toml::Value>;
}

impl<T: Leaf> Node for T {
    fn set(&mut self, path: &[&str], value: RawValue) -> Result<(), SetError> {
        if !path.is_empty() {
            return Err(SetError::Unknown);
        }
        *self = T::read(value).map_err(SetError::Invalid)?;
        Ok(())
    }

    fn describe(&self, name: &str, about: &'static str, out: &mut Vec<SettingDescription>) {
        out.push(SettingDescription {
            name: name.to_owned(),
            about,
            kind: T::KIND,
            value: self.show(),
        });
    }

    fn differences(&self, other: &Self, name: &str, out: &mut Vec<String>) {
        if self != other {
            out.push(name.to_owned());
        }
    }
}

/// Reads a value that is written as text, whichever layer it comes from.
pub(crate) fn read_text(given: RawValue) -> Result<String, String> {
    match given {
        RawValue::Text(text) | RawValue::Toml(toml::Value::String(text)) => Ok(text),
        RawValue::Toml(other) => {
            Err(format!("text in quotes is expected, not {}", article(&other)))
        }
    }
}

pub(crate) fn article(value: &toml::Value) -> String {
    match value.type_str() {
        kind @ ("integer" | "array") => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

/// The name of a setting in a section.
pub(crate) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

impl<T: Leaf> Leaf for Option<T> {
    const KIND: &'static str = T::KIND;

    /// Empty text clears the value of an earlier layer.
    fn read(given: RawValue) -> Result<Self, String> {
        match given {
            RawValue::Text(text) if text.is_empty() => Ok(None),
            given => T::read(given).map(Some),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        self.as_ref().and_then(T::show)
    }
}

impl Leaf for bool {
    const KIND: &'static str = "true or false";

    fn read(given: RawValue) -> Result<Self, String> {
        match given {
            RawValue::Toml(toml::Value::Boolean(value)) => Ok(value),
            RawValue::Text(text) => match text.trim() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err("true or false is expected".into()),
            },
            RawValue::Toml(other) => {
                Err(format!("true or false is expected, not {}", article(&other)))
            }
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Some((*self).into())
    }
}

impl Leaf for Vec<String> {
    const KIND: &'static str = "list";

    fn read(given: RawValue) -> Result<Self, String> {
        match given {
            RawValue::Text(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(Into::into)
                .collect()),
            RawValue::Toml(toml::Value::Array(items)) => {
                items.into_iter().map(|item| read_text(RawValue::Toml(item))).collect()
            }
            RawValue::Toml(other) => Err(format!("a list is expected, not {}", article(&other))),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.clone().into())
    }
}

impl Leaf for std::path::PathBuf {
    const KIND: &'static str = "path";

    fn read(given: RawValue) -> Result<Self, String> {
        let text = read_text(given)?;
        if text.is_empty() { Err("a path is expected".into()) } else { Ok(text.into()) }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.display().to_string().into())
    }
}

/// Whole numbers, each by the bounds of its type.
macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Leaf for $type {
            const KIND: &'static str = "number";

            fn read(given: RawValue) -> Result<Self, String> {
                let expected = || format!("a whole number from {} to {} is \
                    expected", Self::MIN, i64::try_from(Self::MAX).unwrap_or(i64::MAX));
                match given {
                    RawValue::Text(text) => text.trim().parse().map_err(|_| expected()),
                    RawValue::Toml(toml::Value::Integer(number)) => number.try_into().map_err(|_| expected()),
                    RawValue::Toml(other) => Err(format!("{}, not {}", expected(), article(&other))),
                }
            }

            fn show(&self) -> Option<toml::Value> {
                i64::try_from(*self).ok().map(Into::into)
            }
        }
    )*};
}
numbers! { u8 u16 u32 usize }

/// Settings that are written as text and have a parser.
macro_rules! textual {
    ($($type:ty: $kind:literal),* $(,)?) => {$(
        impl $crate::config::node::Leaf for $type {
            const KIND: &'static str = $kind;

            fn read(given: $crate::config::node::RawValue) -> Result<Self, String> {
                let text = $crate::config::node::read_text(given)?;
                text.trim().parse().map_err(|error| format!("{error}"))
            }

            fn show(&self) -> Option<toml::Value> {
                Some(self.to_string().into())
            }
        }
    )*};
}
pub(crate) use textual;

/// Defines a setting with a fixed set of values.
macro_rules! choice {
    ($(#[doc = $about:literal])* pub enum $name:ident ($kind:literal) { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)+ })
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("one of {} is expected", [$($word),+].join(", "))),
                }
            }
        }

        $crate::config::node::textual! { $name: $kind }
    };
}
pub(crate) use choice;

/// Defines a section: a struct whose fields are settings with defaults. The manual shows the doc
/// comments.
macro_rules! settings {
    ($(#[doc = $about:literal])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ pub $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::config::node::Node for $name {
            fn set(&mut self, path: &[&str], value: $crate::config::node::RawValue) -> Result<(),
            $crate::config::node::SetError> {
                use $crate::config::node::{RawValue, SetError};
                match path.split_first() {
                    $(Some((&name, rest)) if name == stringify!($field) => self.$field.set(rest,
                        value),)*
                    Some(_) => Err(SetError::Unknown),
                    None => match value {
                        // An empty section, such as `[cache]` alone.
                        RawValue::Toml(toml::Value::Table(table)) if table.is_empty() => Ok(()),
                        _ => Err(SetError::Invalid("this is a section, not a setting".into())),
                    },
                }
            }

            fn describe(&self, name: &str, _about: &'static str,
                out: &mut Vec<$crate::config::node::SettingDescription>) {
                $(self.$field.describe(&$crate::config::node::join(name, stringify!($field)),
                    concat!($($doc),+), out);)*
            }

            fn differences(&self, other: &Self, name: &str, out: &mut Vec<String>) {
                $(self.$field.differences(&other.$field,
                    &$crate::config::node::join(name, stringify!($field)), out);)*
            }
        }
    };
}
pub(crate) use settings;

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such setting"),
            Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl Leaf for std::net::SocketAddr {
    const KIND: &'static str = "address";

    /// `:8080` is the port on all addresses, as other servers understand it.
    fn read(given: RawValue) -> Result<Self, String> {
        let text = read_text(given)?;
        let text = text.trim();
        let parsed = text.parse::<terse_core::ListenAddress>().ok();
        parsed.and_then(|address| address.tcp()).ok_or_else(|| {
            format!(
                "must be ADDRESS:PORT such as 127.0.0.1:8080 or [::1]:8080, or :8080 for all \
                 addresses (got {text:?})"
            )
        })
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

textual! { String: "text", terse_core::ListenAddress: "address, or Unix socket" }
