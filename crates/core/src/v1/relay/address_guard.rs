//! Which addresses webhooks may reach: the guard against requests that are directed to internal services (SSRF).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Allows public addresses, and the networks that the settings list.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    allowed: Vec<IpNet>,
}

impl AddressGuard {
    /// Allows these networks, too.
    ///
    /// # Errors
    /// A text is not a network.
    pub fn new(networks: &[&str]) -> Result<Self, String> {
        let parsed = networks.iter().map(|text| {
            let network = text
                .parse::<IpNet>()
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| format!("{text:?} is not a network: write it like \"10.0.0.0/8\""))
        });
        Ok(Self {
            allowed: parsed.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a request may go to this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed
            .iter()
            .any(|network| network.contains(&address))
            || is_public(address)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The special-purpose registry of IANA, except for globally reachable networks.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match a {
        0 | 10 | 127 => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        192 => b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99),
        198 => b == 18 || b == 19 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        // Multicast, reserved, broadcast.
        224.. => true,
        _ => false,
    };
    !is_special
}

/// Addresses of 2000::/3 are public, except addresses that embed an IPv4 address, and addresses for documentation.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Teredo, benchmarks, ORCHID and others, and documentation.
        [0x2001, second, ..] if second < 0x0200 || second == 0x0db8 => false,
        // 6to4.
        [0x2002, ..] => false,
        // Documentation.
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        let guard = AddressGuard::default();
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!guard.allows(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.169.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00::1",
            "2001:4860:4860::8888",
        ] {
            assert!(guard.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn listed_networks_are_allowed() {
        let guard = AddressGuard::new(&["10.0.0.0/8", "fd00::/8", "127.0.0.1"]).unwrap();
        for (address, is_allowed) in [
            ("10.9.9.9", true),
            ("::ffff:10.9.9.9", true),
            ("fd00::1", true),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("192.168.0.1", false),
            ("fc00::1", false),
            ("8.8.8.8", true),
        ] {
            assert_eq!(
                guard.allows(address.parse().unwrap()),
                is_allowed,
                "{address}"
            );
        }
        assert!(
            AddressGuard::new(&["10.0.0.0/33"]).is_err()
                && AddressGuard::new(&["localhost"]).is_err()
        );
    }
}
