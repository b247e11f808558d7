//! Parses queries and forms, which have the same syntax.

use axum::extract::FromRequestParts;
use axum::http::request;
use percent_encoding::percent_decode_str;

use super::problem::{INVALID_REQUEST, Problem};

/// The parameters of a query. A handler takes those it knows and then calls `done`, which refuses
/// the rest.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Parses `a=b&c=d`. A name that is given twice is an error, because one of the values would be
    /// ignored.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        Self::parse_at_most(text, 32)
    }

    /// The same, with another limit of parameters.
    pub(crate) fn parse_at_most(text: &str, most: usize) -> Result<Self, Problem> {
        let mut params: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(|| {
                Problem::new(&INVALID_REQUEST, "a name in the query is not UTF-8")
            })?;
            let value = decode(value).ok_or_else(|| Problem::invalid(short(&name), "not UTF-8"))?;
            if params.iter().any(|(have, _)| *have == name) {
                return Err(Problem::invalid(
                    short(&name),
                    format!("`{}` is given twice", short(&name)),
                ));
            }
            params.push((name, value));
            if params.len() > most {
                return Err(Problem::new(&INVALID_REQUEST, "too many parameters"));
            }
        }
        Ok(Self(params))
    }

    /// Removes a parameter and returns its value.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(have, _)| have == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Removes a parameter that had another name in earlier versions, which stays accepted. Returns
    /// the name that was sent, and the value.
    pub(crate) fn take_renamed(
        &mut self,
        name: &'static str,
        old: &'static str,
    ) -> Result<Option<(&'static str, String)>, Problem> {
        match (self.take(name), self.take(old)) {
            (Some(_), Some(_)) => {
                Err(Problem::invalid(old, format!("`{old}` is the old name of `{name}`; give one")))
            }
            (Some(value), None) => Ok(Some((name, value))),
            (None, value) => Ok(value.map(|value| (old, value))),
        }
    }

    /// Removes all parameters whose names begin with `prefix`, and returns them.
    pub(crate) fn take_all(&mut self, prefix: &str) -> Vec<(String, String)> {
        let (taken, left) =
            std::mem::take(&mut self.0).into_iter().partition(|(name, _)| name.starts_with(prefix));
        self.0 = left;
        taken
    }

    /// Refuses parameters that are left.
    pub(crate) fn done(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::invalid(
                short(name),
                format!("`{}` is not a parameter of this call", short(name)),
            )),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut request::Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(request.uri.query().unwrap_or_default())
    }
}

/// A call without parameters.
pub(crate) struct NoParams;

impl<S: Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        Params::from_request_parts(request, state).await?.done().map(|()| Self)
    }
}

fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Shortens a name that a client sent, for messages.
pub(super) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Parses a number from 1 to `most`. It accepts digits only, no sign and no space, and ignores
/// leading zeros.
pub(crate) fn whole_number(field: &'static str, text: &str, most: u64) -> Result<u64, Problem> {
    let digits =
        !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.trim_start_matches('0').parse().ok()).flatten();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Problem::invalid(field, format!("a whole number from 1 to {most}")))
}
