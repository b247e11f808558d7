//! How the pages of this server look, set by admins.

use super::{Moderation, ModerationError};
use crate::branding::{Branding, FooterLink, MAX_BRANDING_LOGO, MAX_FOOTER_LINKS};
use crate::operator::Logo;
use crate::principal::Principal;
use crate::registry::Role;
use crate::validation::{ValidationError, ValidationErrorKind};

/// What becomes of the logo.
#[derive(Clone, Debug, Default)]
pub enum LogoChange {
    /// It stays.
    #[default]
    Keep,
    /// It is removed.
    Remove,
    /// These bytes of a file take its place.
    Replace(Vec<u8>),
}

/// Branding as an admin typed it. An empty text sets nothing.
#[derive(Clone, Debug, Default)]
pub struct BrandingDraft {
    /// The name of the site.
    pub name: String,
    /// The accent colour.
    pub accent: String,
    /// Where to report abusive links.
    pub abuse_contact: String,
    /// Labels and URLs of links in the footer. Pairs of empty texts are left out.
    pub links: Vec<(String, String)>,
    /// The logo.
    pub logo: LogoChange,
}

impl Moderation {
    /// What admins have set. Only for admins.
    pub async fn branding(&self, principal: &Principal) -> Result<Branding, ModerationError> {
        principal.require(Role::Admin)?;
        Ok(self.registry.branding().await?)
    }

    /// Checks and keeps a branding. It is in force on this node when this returns. Only for admins.
    pub async fn put_branding(
        &self,
        principal: &Principal,
        draft: BrandingDraft,
    ) -> Result<Branding, ModerationError> {
        principal.require(Role::Admin)?;
        let logo = match draft.logo {
            LogoChange::Keep => self.registry.branding().await?.logo,
            LogoChange::Remove => None,
            LogoChange::Replace(bytes) => Some(logo_of(bytes)?),
        };
        let links = draft
            .links
            .iter()
            .filter(|(label, url)| !(label.trim().is_empty() && url.trim().is_empty()));
        let links: Result<Vec<_>, _> =
            links.map(|(label, url)| FooterLink::parse(label, url)).collect();
        let links = links.map_err(|why| refused("links", format!("every link {why}")))?;
        if links.len() > MAX_FOOTER_LINKS {
            let why = format!("there can be at most {MAX_FOOTER_LINKS} links");
            return Err(refused("links", why).into());
        }
        let branding = Branding {
            name: parsed("name", &draft.name)?,
            accent: parsed("accent", &draft.accent)?,
            abuse_contact: parsed("abuse_contact", &draft.abuse_contact)?,
            links,
            logo,
        };
        self.registry.put_branding(branding.clone(), self.by(principal.owner(), None)).await?;
        self.refresh.refresh().await;
        Ok(branding)
    }
}

fn refused(field: &'static str, why: String) -> ValidationError {
    ValidationError::new(ValidationErrorKind::InvalidRequest, field, why)
}

/// A value, if the text is not empty.
fn parsed<T>(field: &'static str, text: &str) -> Result<Option<T>, ValidationError>
where
    T: std::str::FromStr<Err = &'static str>,
{
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|why: &str| refused(field, why.to_owned())),
    }
}

/// A picture that visitors may be shown. SVG is left out: it may hold scripts and links.
fn logo_of(bytes: Vec<u8>) -> Result<Logo, ValidationError> {
    let refused = |why: &str| refused("logo", why.to_owned());
    if bytes.len() > MAX_BRANDING_LOGO {
        return Err(refused("must have at most 64 KiB"));
    }
    let logo = Logo::parse(bytes).ok().filter(|logo| logo.media_type() != "image/svg+xml");
    let logo = logo.ok_or_else(|| refused("must be a PNG, JPEG or WebP picture"))?;
    if logo.png_size().is_some() && !logo.fits_png() {
        return Err(refused("a PNG must have at most 512 by 512 pixels"));
    }
    Ok(logo)
}
