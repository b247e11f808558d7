//! The settings of screening, and the clients that fetch its lists.

use terse_safety::safe_browsing::SafeBrowsingSettings;
use terse_safety::{ConfiguredList, Flag, ListEffect, SafetySettings};

use crate::config::{Config, is_loopback};
use crate::outgoing::client;

/// The settings of screening.
pub(super) fn settings(config: &Config) -> SafetySettings {
    let safety = &config.safety;
    let block = safety.lists.0.iter().map(|source| ("safety.lists", ListEffect::Block, source));
    let warn = safety.warn_lists.0.iter();
    let warn = warn.map(|source| ("safety.warn_lists", ListEffect::Warn, source));
    let lists = block.chain(warn).map(|(setting, effect, source)| ConfiguredList {
        setting,
        effect,
        source: source.clone(),
    });
    let safe_browsing = safety.safe_browsing_key.clone().map(|key| {
        let url = safety.safe_browsing_url.as_ref().map(|url| url.url().clone());
        // An operator who configures a loopback address intends it.
        let allow = safety.allow_private_targets || url.as_ref().is_some_and(is_loopback);
        SafeBrowsingSettings { key, url, client: client(config, allow) }
    });
    SafetySettings {
        lists: lists.collect(),
        lists_every: safety.lists_every.get(),
        client: client(config, safety.allow_private_targets),
        blocked_hosts: safety.blocked_hosts.clone(),
        warn_on: safety.warn_on.iter().filter_map(|word| Flag::parse(word)).collect(),
        safe_browsing,
        folder: config.data_dir.join("lists"),
        version: env!("CARGO_PKG_VERSION"),
    }
}
