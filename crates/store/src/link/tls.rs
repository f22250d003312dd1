//! TLS: trusted authorities, and the client certificate.

use std::path::{Path, PathBuf};

use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::config::StoreConfig;

/// The certificates of a pool, which were read and checked. The authorities of the system, if they are used, are read
/// again for each connection.
#[derive(Clone)]
pub(crate) struct Tls(TlsCertificates);

impl Tls {
    /// Reads the configured files; `None` if TLS is not used. `switch` is the setting that enables TLS, for error
    /// texts.
    ///
    /// # Errors
    /// A setting or a file is invalid. The text names the key and the remedy.
    pub(crate) fn new(
        config: &StoreConfig,
        is_used: bool,
        switch: &str,
    ) -> Result<Option<Self>, String> {
        let files = [
            ("tls_ca_file", &config.tls_ca_file),
            ("tls_certificate_file", &config.tls_certificate_file),
            ("tls_key_file", &config.tls_key_file),
        ];
        if !is_used {
            return match files.into_iter().find(|(_, file)| file.is_some()) {
                Some((key, _)) => Err(format!(
                    "{key} is set, but TLS is not enabled: write {switch}, or remove {key}"
                )),
                None => Ok(None),
            };
        }
        // Fails if another part of the process has installed a provider, which is fine.
        let _ = default_provider().install_default();
        let [
            (ca_key, ca_file),
            (certificate_key, certificate_file),
            (key_key, key_file),
        ] = files;
        let authorities = |file: &PathBuf| {
            let pem = read(ca_key, file)?;
            certificates(ca_key, file, &pem).map(|_| pem)
        };
        let root_cert = ca_file.as_ref().map(authorities).transpose()?;
        let client_tls = match (certificate_file, key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(client_tls((certificate_key, certificate), (key_key, key))?)
            }
            (Some(_), None) => return Err(alone(certificate_key, key_key)),
            (None, Some(_)) => return Err(alone(key_key, certificate_key)),
        };
        Ok(Some(Self(TlsCertificates {
            client_tls,
            root_cert,
        })))
    }

    /// A client for a server that is reached over TLS.
    pub(crate) fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        Client::build_with_tls(info, self.0.clone())
    }
}

fn client_tls(
    (certificate_key, certificate_file): (&str, &Path),
    (key_key, key_file): (&str, &Path),
) -> Result<ClientTlsConfig, String> {
    let client_cert = read(certificate_key, certificate_file)?;
    let client_key = read(key_key, key_file)?;
    let chain = certificates(certificate_key, certificate_file, &client_cert)?;
    let key = PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| {
        let file = key_file.display();
        format!("{key_key}: {file} contains no private key in PEM form ({error})")
    })?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| {
        format!("{key_key} does not belong to {certificate_key}: set the private key of that certificate ({error})")
    })?;
    Ok(ClientTlsConfig {
        client_cert,
        client_key,
    })
}

fn alone(key: &str, other: &str) -> String {
    format!("{key} is set, but not {other}: a client certificate needs both")
}

fn read(key: &str, file: &Path) -> Result<Vec<u8>, String> {
    let read = std::fs::read(file);
    read.map_err(|error| format!("{key}: {} cannot be read: {error}", file.display()))
}

fn certificates(
    key: &str,
    file: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let file = file.display();
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("{key}: {file} contains no certificate in PEM form"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{key}: {file} is not in PEM form: {error}")),
    }
}
