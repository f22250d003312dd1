//! The certificate of a broker.

use std::path::PathBuf;

/// The certificate that a broker shows to clients that use TLS, and its key: files with PEM.
#[derive(Debug, Clone)]
pub struct BrokerCertificate {
    pub certificate: PathBuf,
    /// Its private key, as PKCS #8.
    pub key: PathBuf,
}
