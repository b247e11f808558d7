//! A link as moderators see it: with its owner and moderation status, and without the owner's
//! notes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::describe::ToSchema;
use serde::Serialize;
use terse_core::accounts::AccountError;
use terse_core::{Link, OwnerId, Timestamp, Title};

use super::shapes::host_of;
use crate::http::host::short_url;
use crate::http::host::unicode_host;
use crate::http::problem::Problem;
use crate::http::state::App;

/// Caches the names of owners during one request.
#[derive(Default)]
pub(super) struct Names(HashMap<OwnerId, Option<String>>);

impl Names {
    pub(super) async fn of(
        &mut self,
        state: &App,
        owner: OwnerId,
    ) -> Result<OwnerBody, AccountError> {
        let name = match self.0.entry(owner) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => place.insert(state.accounts.name_of(owner).await?).clone(),
        };
        Ok(OwnerBody { id: owner.0, name })
    }
}

/// The owner of a link.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Owner)]
pub(crate) struct OwnerBody {
    /// 0 is anonymous, 1 the operator.
    #[schema(minimum = 0)]
    id: u64,
    /// The name; null for anonymous links, the operator, and erased accounts.
    #[schema(required = true)]
    name: Option<String>,
}

/// A link as moderators see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ModeratedLink {
    /// The code.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    short_code: String,
    /// The short link itself.
    short_url: String,
    /// Its short domain.
    domain: String,
    /// Where it leads.
    #[schema(max_length = 8192, pattern = "^https?://")]
    long_url: String,
    /// The host of its target in ASCII (punycode).
    host: String,
    /// The same in its own script, where that differs.
    #[schema(required = true)]
    host_unicode: Option<String>,
    /// A title.
    #[schema(required = true)]
    title: Option<String>,
    /// Its owner.
    #[schema(inline)]
    owner: OwnerBody,
    /// When it was created.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
    /// When it expires.
    #[schema(required = true, format = DateTime)]
    expires_at: Option<String>,
    /// When it was deleted.
    #[schema(required = true, format = DateTime)]
    deleted_at: Option<String>,
    /// Its status now.
    #[schema(schema_with = super::schemas::status)]
    status: &'static str,
    /// Its moderation status.
    #[schema(schema_with = super::schemas::moderation_status)]
    standing: &'static str,
    /// Who decided: `moderator`, or `screen` for lists, flags and reports.
    judged_by: &'static str,
    /// Its flags. `reported`: several reporters have reported it.
    #[schema(max_items = 32)]
    flags: Vec<String>,
    /// The entry of a list for which it is blocked or warned of; null if there is none, or if a
    /// moderator decided.
    #[schema(required = true, inline)]
    list_match: Option<ListMatchBody>,
    /// Its revision.
    #[schema(minimum = 0)]
    pub(super) revision: u64,
}

/// An entry of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ListMatch)]
pub(crate) struct ListMatchBody {
    /// The name of the list in the settings; `moderators` for hosts that moderators block, and
    /// `Safe Browsing`.
    list: String,
    /// What the entry names: a `host` with its subdomains, or one `url`.
    #[schema(schema_with = super::schemas::entry_kind)]
    entry: &'static str,
}

impl ModeratedLink {
    pub(super) async fn new(state: &App, names: &mut Names, link: &Link) -> Result<Self, Problem> {
        let hosts = &state.links.rules().hosts;
        let host = link.target.host().unwrap_or_default();
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Ok(Self {
            short_code: link.key.code.to_string(),
            short_url: short_url(&link.key, hosts),
            domain: host_of(&link.key, hosts).to_owned(),
            long_url: link.target.to_string(),
            host_unicode: unicode_host(&host),
            host,
            title: link.title.as_ref().map(Title::as_str).map(str::to_owned),
            owner: names.of(state, link.owner).await?,
            created_at: link.created_at.to_string(),
            updated_at: link.updated_at.to_string(),
            expires_at: text(link.expires_at),
            deleted_at: text(link.deleted_at),
            status: link.status(state.links.now()).as_str(),
            standing: link.moderation.as_str(),
            judged_by: link.moderated_by.as_str(),
            flags: link.flags.iter().map(str::to_owned).collect(),
            list_match: state
                .links
                .list_match(link)
                .map(|found| ListMatchBody { list: found.list, entry: found.kind.as_str() }),
            revision: link.revision.0,
        })
    }
}
