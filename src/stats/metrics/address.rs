use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Where metrics are served: a port that only this machine can reach, or an address such as `0.0.0.0:9184`, which
/// everyone who can reach the machine may read. Port 0 stands for any free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Told", into = "String")]
pub struct MetricsAddress(pub(super) SocketAddr);

/// The address as settings give it.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a port, such as 9184, or a host and a port, such as \"0.0.0.0:9184\"")]
enum Told {
    Port(u16),
    Text(String),
}

impl From<u16> for MetricsAddress {
    fn from(port: u16) -> Self {
        Self((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into())
    }
}

impl From<SocketAddr> for MetricsAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl FromStr for MetricsAddress {
    type Err = Error;

    /// A port, or a host and a port.
    fn from_str(text: &str) -> Result<Self> {
        if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
            return Ok(port.into());
        }
        let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        found.map(Self).ok_or_else(|| {
            let message = format!(
                "{text:?} is not an address: give a port, such as 9184, or a host and a port, such as 0.0.0.0:9184"
            );
            Error::new(ErrorKind::Config, message)
        })
    }
}

impl TryFrom<Told> for MetricsAddress {
    type Error = String;

    fn try_from(told: Told) -> Result<Self, String> {
        match told {
            Told::Port(port) => Ok(port.into()),
            Told::Text(text) => text.parse().map_err(|error: Error| error.message().to_owned()),
        }
    }
}

impl From<MetricsAddress> for String {
    fn from(address: MetricsAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine_alone() {
        for text in ["9184", ":9184", "127.0.0.1:9184"] {
            assert_eq!(text.parse::<MetricsAddress>().unwrap(), MetricsAddress::from(9184), "{text}");
        }
        assert!(MetricsAddress::from(9184).0.ip().is_loopback());
        assert_eq!("[::]:80".parse::<MetricsAddress>().unwrap().to_string(), "[::]:80");
        let told: Vec<MetricsAddress> = serde_json::from_str(r#"[9184, "9184", "0.0.0.0:9184"]"#).unwrap();
        assert_eq!(serde_json::to_string(&told).unwrap(), r#"["127.0.0.1:9184","127.0.0.1:9184","0.0.0.0:9184"]"#);
        for text in ["", "localhost", "99999", "a b:1"] {
            let error = text.parse::<MetricsAddress>().unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.message().contains("give a port"), "{error}");
        }
    }
}
