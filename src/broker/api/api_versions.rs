//! ApiVersions (API 18): what this broker serves, from the one table. Knows nothing else.

use wire::ErrorCode;
use wire::messages::ApiVersionsRequestData;
use wire::messages::api_versions_response::ApiVersionsResponseData;
use wire::response::{Response, served_api_versions};

use super::{Context, Handled};

/// From this version on clients name their software (KIP-511).
const FIRST_VERSION_WITH_SOFTWARE: i16 = 3;

/// Answers one request.
pub fn handle(context: &Context, request: &ApiVersionsRequestData) -> Handled {
    let mut error = ErrorCode::None;
    if context.header.api_version >= FIRST_VERSION_WITH_SOFTWARE {
        let name = request.client_software_name.as_str();
        let version = request.client_software_version.as_str();
        if well_formed(name) && well_formed(version) {
            *context.client.software.borrow_mut() = Some(format!("{name} {version}"));
        } else {
            error = ErrorCode::InvalidRequest;
        }
    }
    let response = ApiVersionsResponseData::default()
        .with_error_code(error.code())
        .with_api_keys(served_api_versions())
        .with_finalized_features_epoch(0);
    context.reply(&Response::ApiVersions(response))
}

/// KIP-511's pattern for software names and versions.
fn well_formed(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text
            .chars()
            .all(|c| alphanumeric(c) || matches!(c, '-' | '.'))
}
