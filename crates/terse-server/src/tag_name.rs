//! The name of a tag in a request.

use terse_core::Tags;

use crate::http::problem::Problem;

/// A single tag in its canonical form. A problem is about this field.
pub(crate) fn tag_name(text: &str, field: &'static str) -> Result<String, Problem> {
    let tags = Tags::parse(&[text]).map_err(|refusal| refusal.on(field))?;
    Ok(tags.joined())
}
