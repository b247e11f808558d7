//! The metrics of certificates.

use terse_core::metrics::Metrics;

use crate::certificates::Certificates;

impl Certificates {
    /// Writes when the certificate for each host expires.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let help = "When the certificate for a host expires, in seconds since 1970";
        let expiries = self.expiries().into_iter().map(|(host, ends)| (host, ends as f64));
        to.gauges("terse_certificate_expiry_timestamp_seconds", help, "host", expiries);
    }
}
