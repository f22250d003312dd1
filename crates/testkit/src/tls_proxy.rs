//! TLS before a server that has none: what comes in is decrypted and passed on, and back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificates::{Authority, Certificate};

/// A TLS listener on 127.0.0.1 before a plain server. Dropping it ends the listening.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl TlsProxy {
    /// Shows this certificate, and passes on to `target`. Where `clients` is given, clients must show a
    /// certificate that it signed.
    ///
    /// # Panics
    /// When the certificate makes no sense.
    pub async fn start(
        target: SocketAddr,
        shown: &Certificate,
        clients: Option<&Authority>,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(shown, clients)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let task = tokio::spawn(async move {
            while let Ok((plain, _)) = listener.accept().await {
                tokio::spawn(pass_on(acceptor.clone(), plain, target));
            }
        });
        Self { address, task }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(acceptor: TlsAcceptor, plain: TcpStream, target: SocketAddr) {
    // A client that does not trust us, or whom we do not trust, is what tests are about.
    if let Ok(mut client) = acceptor.accept(plain).await
        && let Ok(mut server) = TcpStream::connect(target).await
    {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

fn server_config(shown: &Certificate, clients: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(certificate(authority.pem()))
                .expect("an authority");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("an authority"))
        }
    };
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("a private key");
    builder
        .with_single_cert(vec![certificate(&shown.certificate)], key)
        .expect("a key that fits its certificate")
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}
