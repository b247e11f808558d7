//! Blocklists and Safe Browsing.

use std::collections::HashSet;

use terse_safety::{Flag, ListLocation, ListSource};

use super::is_loopback;
use crate::config::Config;

pub(super) fn lists(config: &Config) -> Result<(), (&'static str, String)> {
    let safety = &config.safety;
    let mut seen = HashSet::new();
    let block = safety.lists.0.iter().map(|source| ("safety.lists", source));
    let warn = safety.warn_lists.0.iter().map(|source| ("safety.warn_lists", source));
    for (setting, ListSource { name, place }) in block.chain(warn) {
        if !seen.insert(name) {
            return Err((
                setting,
                format!("two lists are called {name:?}; write name=… before one of them"),
            ));
        }
        // An attacker who can change a list in transit decides which links work.
        if matches!(place, ListLocation::Url(url) if url.scheme() != "https")
            && !safety.allow_private_targets
        {
            return Err((setting, format!("{name:?} must be fetched by https")));
        }
    }
    match safety.warn_on.iter().find(|word| Flag::parse(word).is_none()) {
        Some(word) => {
            let known = Flag::ALL.map(Flag::as_str).join(", ");
            Err(("safety.warn_on", format!("{word:?} is not known; there are {known}")))
        }
        None => Ok(()),
    }
}

pub(super) fn safe_browsing(config: &Config) -> Result<(), (&'static str, String)> {
    if let Some(key) = &config.safety.safe_browsing_key {
        let key = key.reveal();
        if !(1..=256).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err((
                "safety.safe_browsing_key",
                "1 to 256 visible ASCII characters without spaces are needed".into(),
            ));
        }
    }
    match &config.safety.safe_browsing_url {
        // An attacker who can change a response in transit decides which links work; one who can
        // read a request has the key.
        Some(url) if url.url().scheme() != "https" && !is_loopback(url.url()) => {
            Err(("safety.safe_browsing_url", "must be https, unless it is on this machine".into()))
        }
        _ => Ok(()),
    }
}
