//! Which version of an API is spoken with a broker: the highest that both sides have. Pure.

use std::collections::HashMap;

use wire::ApiKey;
use wire::messages::api_versions_response::ApiVersion;

use super::api::RequestMessage;
use crate::Error;

/// What one broker speaks, as it said in ApiVersions.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    theirs: HashMap<i16, (i16, i16)>,
}

impl Versions {
    /// From the list in the broker's answer.
    pub fn new(list: &[ApiVersion]) -> Self {
        let row = |api: &ApiVersion| (api.api_key, (api.min_version, api.max_version));
        Self {
            theirs: list.iter().map(row).collect(),
        }
    }

    /// The highest version of a request that both sides have.
    ///
    /// # Errors
    /// When they have none in common.
    pub fn highest<M: RequestMessage>(&self, address: &str) -> Result<i16, Error> {
        self.range(M::API, (M::VERSION_MIN, M::VERSION_MAX), address)
            .map(|(_, highest)| highest)
    }

    /// The versions, from the lowest to the highest, that are in `ours` and in the broker's.
    ///
    /// # Errors
    /// When there are none.
    pub fn range(&self, api: ApiKey, ours: (i16, i16), address: &str) -> Result<(i16, i16), Error> {
        let theirs = self.theirs.get(&(api as i16)).copied();
        theirs
            .map(|theirs| (ours.0.max(theirs.0), ours.1.min(theirs.1)))
            .filter(|(lowest, highest)| lowest <= highest)
            .ok_or_else(|| Error::NoCommonVersion {
                api,
                ours,
                theirs,
                address: address.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(min: i16, max: i16) -> Versions {
        Versions::new(&[ApiVersion::default()
            .with_api_key(ApiKey::Fetch as i16)
            .with_min_version(min)
            .with_max_version(max)])
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        for (theirs, spoken) in [((0, 12), 12), ((0, 99), 18), ((18, 30), 18), ((4, 4), 4)] {
            let range = broker(theirs.0, theirs.1).range(ApiKey::Fetch, (4, 18), "b:1");
            assert_eq!(range.ok().map(|it| it.1), Some(spoken));
        }
    }

    #[test]
    fn without_a_common_version_the_error_says_what_each_side_has() {
        let refused = |versions: Versions, api| {
            let error = versions
                .range(api, (4, 18), "b:1")
                .expect_err("nothing common");
            error.to_string()
        };
        assert_eq!(
            refused(broker(19, 30), ApiKey::Fetch),
            "b:1 speaks Fetch in versions 19 to 30, this client in 4 to 18"
        );
        assert_eq!(
            refused(broker(0, 3), ApiKey::Produce),
            "b:1 does not serve Produce"
        );
    }
}
