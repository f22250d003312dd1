//! A TLS proxy in front of a server without TLS.

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

use crate::certificates::{Certificate, CertificateAuthority};

/// A TLS listener on 127.0.0.1 in front of a plain server. Dropping it closes the listener.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl TlsProxy {
    /// Starts a proxy to `target` that presents the certificate `shown`. If `clients` is given, clients
    /// must present a certificate that it signed.
    ///
    /// # Panics
    /// If the certificate is invalid.
    pub async fn start(
        target: SocketAddr,
        shown: &Certificate,
        clients: Option<&CertificateAuthority>,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(shown, clients)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let task = tokio::spawn(async move {
            while let Ok((plain, _)) = listener.accept().await {
                tokio::spawn(forward(acceptor.clone(), plain, target));
            }
        });
        Self { address, task }
    }

    /// The address of the listener.
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

async fn forward(acceptor: TlsAcceptor, plain: TcpStream, target: SocketAddr) {
    // A failed handshake is an expected case in tests.
    if let Ok(mut client) = acceptor.accept(plain).await
        && let Ok(mut server) = TcpStream::connect(target).await
    {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

fn server_config(shown: &Certificate, clients: Option<&CertificateAuthority>) -> ServerConfig {
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
