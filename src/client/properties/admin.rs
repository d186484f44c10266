//! An admin client's settings.

use std::time::Duration;

use super::{Properties, Reader, cluster};
use crate::{ClusterConfig, Error};

/// Settings of an admin client, with Kafka's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// What all clients have.
    pub cluster: ClusterConfig,
    /// `default.api.timeout.ms`: how long a call may take, all its attempts together.
    pub default_api_timeout: Duration,
}

impl AdminConfig {
    /// The defaults, for the brokers of `bootstrap` (`host:port`, comma separated).
    pub fn to(bootstrap: &str) -> Self {
        Self {
            cluster: ClusterConfig::to(bootstrap),
            default_api_timeout: Duration::from_secs(60),
        }
    }

    /// From properties by Kafka's names.
    ///
    /// # Errors
    /// With all that is unknown or wrong.
    pub fn from_properties(given: &Properties) -> Result<Self, Error> {
        let mut reader = Reader::new(given);
        let config = Self {
            cluster: cluster::read(&mut reader),
            default_api_timeout: reader.millis(
                "default.api.timeout.ms",
                Duration::from_secs(60),
                0,
            ),
        };
        reader.finish(config)
    }
}
