//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, PEM-encoded.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl CertificateAuthority {
    /// Creates an authority that no client trusts yet.
    ///
    /// # Panics
    /// If no key can be generated.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A unique name: verifiers look up the signer of a certificate by name.
        let name = format!("authority {}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params.self_signed(&key).expect("a key signs");
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Returns the authority's certificate, PEM-encoded.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for a server or a client. `name` may be an IP address.
    #[must_use]
    pub fn certificate(&self, name: &str) -> Certificate {
        self.sign(name, 2099)
    }

    /// Issues a certificate that expired at the end of 2001.
    #[must_use]
    pub fn expired_certificate(&self, name: &str) -> Certificate {
        self.sign(name, 2001)
    }

    fn sign(&self, name: &str, until: i32) -> Certificate {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 12, 31);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key can be made");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("an authority signs");
        Certificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes a text to a file in this folder and returns its path.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn write_text(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file can be written");
    path
}
