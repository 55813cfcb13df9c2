//! What the settings ask of a dashboard, and whether it may be served like that.

use std::net::{IpAddr, Ipv4Addr};

use async_recursion::async_recursion as boxed;
use axum::http::HeaderName;
use vestal_api::dashboard::keys;
use vestal_config::{ConfigError, SettingKey, Settings, Text};

use crate::auth::{AuthStore, OidcSettings, People, is_trustworthy};
use crate::gate::{AddressRange, ParseNetworkError};
use crate::preview::{InvalidPreviewUrl, PreviewBase};

/// What a dashboard is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DashboardSettings {
    /// The address it listens on.
    pub host: IpAddr,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// What browsers call it, if that is not the address.
    pub public_url: Option<String>,
    /// Whether everybody who reaches it may do everything.
    pub is_insecure: bool,
    /// Where previews are for who comes through a proxy.
    pub(crate) preview_base: Option<PreviewBase>,
    pub(crate) proxies: Vec<AddressRange>,
    pub(crate) proxy_header: Option<HeaderName>,
    /// What people may do whom the proxy names.
    pub(crate) proxy_people: People,
    /// The provider that people log in at.
    pub oidc: Option<OidcSettings>,
}

/// Why a dashboard cannot be served as the settings have it.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A setting cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The host is not an address.
    #[error(
        "{0:?} is not an address to listen on; write 127.0.0.1, ::1, 0.0.0.0 or an address of this machine (dashboard.host, --host)"
    )]
    Host(String),
    /// A proxy is not an address.
    #[error("dashboard.trusted_proxies: {0}")]
    Proxy(#[from] ParseNetworkError),
    /// The header cannot be one.
    #[error("dashboard.proxy_user_header: {0:?} is not the name of a header")]
    Header(String),
    /// The header would be believed of everybody.
    #[error(
        "dashboard.proxy_user_header is set and dashboard.trusted_proxies is not: name the address of the proxy that sets the header"
    )]
    HeaderWithoutProxy,
    /// The public address is none.
    #[error(
        "dashboard.public_url: {0:?} is not an address; write it as https://host or http://host:port, without a path"
    )]
    PublicUrl(String),
    /// The addresses of previews are none.
    #[error("dashboard.preview_url: {0}")]
    PreviewUrl(#[from] InvalidPreviewUrl),
    /// Previews would be believed of everybody, or of nobody.
    #[error(
        "dashboard.preview_url is set and {missing} is not: previews at names of their own are for who opens the dashboard through a proxy"
    )]
    PreviewWithoutProxy {
        /// What is missing.
        missing: &'static str,
    },
    /// The provider's address is none, or not safe.
    #[error(
        "dashboard.oidc_issuer: {0:?} cannot be a provider; write it as https://host, with http only for one on this machine"
    )]
    Issuer(String),
    /// A part of what a provider needs is missing.
    #[error("{set} is set and {missing} is not: a login at a provider needs both")]
    HalfProvider {
        /// What is there.
        set: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// Nobody could log in at the provider.
    #[error(
        "dashboard.oidc_issuer is set and no user may log in there: set dashboard.oidc_operators or dashboard.oidc_viewers to their subjects or addresses of mail"
    )]
    NobodyNamed,
    /// Others can reach it, and there is no way to log in.
    #[error(
        "{0} can be reached from other machines, and there is no way to log in: set a password (vestal dashboard password), or name a provider (dashboard.oidc_issuer, dashboard.oauth_client_id), or let a proxy log people in (dashboard.proxy_user_header, dashboard.trusted_proxies); to serve everybody without a login all the same: --insecure"
    )]
    NoProvider(IpAddr),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
}

impl DashboardSettings {
    /// Reads them. `host` and `port` are what the command line says.
    pub fn new(
        settings: &Settings,
        host: Option<&str>,
        port: Option<u16>,
    ) -> Result<Self, SettingsError> {
        let text = |key: &SettingKey<Text>| -> Result<Option<String>, ConfigError> {
            Ok(settings.get(key)?.value.get().map(str::to_owned))
        };
        let configured = text(&keys::DASHBOARD_HOST)?;
        let host = match host.or(configured.as_deref()) {
            None | Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(host) => host.parse().map_err(|_| SettingsError::Host(host.to_owned()))?,
        };
        let configured_port = settings.get(&keys::DASHBOARD_PORT)?.value.get();
        let proxies = text(&keys::DASHBOARD_TRUSTED_PROXIES)?.unwrap_or_default();
        let proxies: Vec<AddressRange> = proxies
            .split(',')
            .map(str::trim)
            .filter(|proxy| !proxy.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let proxy_header = match text(&keys::DASHBOARD_PROXY_USER_HEADER)? {
            Some(name) => Some(name.parse().map_err(|_| SettingsError::Header(name.clone()))?),
            None => None,
        };
        if proxy_header.is_some() && proxies.is_empty() {
            return Err(SettingsError::HeaderWithoutProxy);
        }
        let public_url = text(&keys::DASHBOARD_PUBLIC_URL)?;
        if let Some(url) = public_url.as_deref().filter(|url| !is_base_url(url)) {
            return Err(SettingsError::PublicUrl(url.to_owned()));
        }
        let preview_base = match text(&keys::DASHBOARD_PREVIEW_URL)? {
            Some(url) => Some(preview_base(&url, public_url.as_deref(), &proxies)?),
            None => None,
        };
        Ok(Self {
            host,
            port: port.unwrap_or_else(|| u16::try_from(configured_port).unwrap_or(u16::MAX)),
            public_url: public_url.map(|url| url.trim_end_matches('/').to_owned()),
            is_insecure: settings.get(&keys::DASHBOARD_INSECURE)?.value,
            preview_base,
            proxies,
            proxy_header,
            proxy_people: People::parse(
                &text(&keys::DASHBOARD_PROXY_OPERATORS)?.unwrap_or_default(),
                &text(&keys::DASHBOARD_PROXY_VIEWERS)?.unwrap_or_default(),
            ),
            oidc: oidc(settings)?,
        })
    }

    /// Refuses what others could reach and nobody could log in to. Private networks are no
    /// exception: others are in them.
    #[boxed]
    pub async fn check_provider(&self, store: &AuthStore) -> Result<(), SettingsError> {
        let is_closed = self.host.is_loopback()
            || self.is_insecure
            || self.proxy_header.is_some()
            || self.oidc.is_some();
        if is_closed || store.has_password().await? {
            return Ok(());
        }
        Err(SettingsError::NoProvider(self.host))
    }
}

/// Reads where previews are for who comes through a proxy.
fn preview_base(
    url: &str,
    public_url: Option<&str>,
    proxies: &[AddressRange],
) -> Result<PreviewBase, SettingsError> {
    let without = |key: &SettingKey<Text>| SettingsError::PreviewWithoutProxy { missing: key.name };
    let public_url = public_url.ok_or_else(|| without(&keys::DASHBOARD_PUBLIC_URL))?;
    if proxies.is_empty() {
        return Err(without(&keys::DASHBOARD_TRUSTED_PROXIES));
    }
    Ok(PreviewBase::parse(url, public_url)?)
}

/// Reads what a login at a provider needs: all of it, or none.
fn oidc(settings: &Settings) -> Result<Option<OidcSettings>, SettingsError> {
    let text = |key: &SettingKey<Text>| -> Result<String, ConfigError> {
        Ok(settings.get(key)?.value.get().unwrap_or_default().trim().to_owned())
    };
    let issuer = text(&keys::DASHBOARD_OIDC_ISSUER)?;
    let client_id = text(&keys::DASHBOARD_OAUTH_CLIENT_ID)?;
    let half = |set: &SettingKey<Text>, missing: &SettingKey<Text>| SettingsError::HalfProvider {
        set: set.name,
        missing: missing.name,
    };
    match (issuer.is_empty(), client_id.is_empty()) {
        (true, true) => return Ok(None),
        (false, true) => {
            return Err(half(&keys::DASHBOARD_OIDC_ISSUER, &keys::DASHBOARD_OAUTH_CLIENT_ID));
        }
        (true, false) => {
            return Err(half(&keys::DASHBOARD_OAUTH_CLIENT_ID, &keys::DASHBOARD_OIDC_ISSUER));
        }
        (false, false) => {}
    }
    let wrong = || SettingsError::Issuer(issuer.clone());
    let parsed: reqwest::Url = issuer.parse().map_err(|_| wrong())?;
    let is_plain = parsed.query().is_none()
        && parsed.fragment().is_none()
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if !is_plain || !is_trustworthy(&parsed) {
        return Err(wrong());
    }
    let people = People::parse(
        &text(&keys::DASHBOARD_OIDC_OPERATORS)?,
        &text(&keys::DASHBOARD_OIDC_VIEWERS)?,
    );
    if people.is_empty() {
        return Err(SettingsError::NobodyNamed);
    }
    let secret = settings.get(&keys::DASHBOARD_OAUTH_CLIENT_SECRET)?.value;
    Ok(Some(OidcSettings {
        issuer: parsed,
        client_id,
        client_secret: secret.expose().map(str::to_owned),
        scopes: Some(text(&keys::DASHBOARD_OIDC_SCOPES)?)
            .filter(|scopes| !scopes.is_empty())
            .unwrap_or_else(|| "openid email".to_owned()),
        people,
    }))
}

/// Reports whether this is a scheme and a host, and nothing more.
fn is_base_url(url: &str) -> bool {
    let url = url.trim_end_matches('/');
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]_".contains(&byte);
        !host.is_empty() && host.bytes().all(is_fine)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vestal_config::{Environment, Home};

    fn load(yaml: &str, host: Option<&str>) -> Result<DashboardSettings, SettingsError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), yaml).unwrap();
        let none: [(&str, &str); 0] = [];
        let environment = Environment::from_pairs(none);
        let home = Home::at(dir.path());
        let settings = Settings::load(&vestal_api::schema(), home, environment, Vec::new());
        DashboardSettings::new(&settings, host, None)
    }

    async fn checked(yaml: &str, host: &str, password: bool) -> Result<(), SettingsError> {
        let dir = tempfile::tempdir().unwrap();
        let store = AuthStore::open(&dir.path().join("dashboard.db")).await.unwrap();
        if password {
            store.set_password("a long enough one", jiff::Timestamp::now()).await.unwrap();
        }
        let checked = load(yaml, Some(host)).unwrap().check_provider(&store).await;
        store.close().await;
        checked
    }

    #[tokio::test]
    async fn what_others_can_reach_is_refused_without_a_way_to_log_in() {
        for host in ["0.0.0.0", "192.168.1.7", "10.0.0.1", "::", "203.0.113.9"] {
            let refused = checked("", host, false).await;
            assert!(matches!(refused, Err(SettingsError::NoProvider(_))), "{host}");
            assert!(checked("", host, true).await.is_ok(), "{host} with a password");
        }
        for host in ["127.0.0.1", "::1", "localhost"] {
            assert!(checked("", host, false).await.is_ok(), "{host}");
        }
        let proxy = "dashboard: {proxy_user_header: X-User, trusted_proxies: 10.0.0.1}";
        assert!(checked(proxy, "0.0.0.0", false).await.is_ok());
        assert!(checked("dashboard: {insecure: true}", "0.0.0.0", false).await.is_ok());
    }

    #[test]
    fn a_header_is_not_believed_of_everybody() {
        let found = load("dashboard: {proxy_user_header: X-User}", None);
        assert!(matches!(found, Err(SettingsError::HeaderWithoutProxy)));
        let found =
            load("dashboard: {proxy_user_header: \"no header\", trusted_proxies: '::1'}", None);
        assert!(matches!(found, Err(SettingsError::Header(_))));
        let found = load("dashboard: {trusted_proxies: '10.0.0.0/99'}", None);
        assert!(matches!(found, Err(SettingsError::Proxy(_))));
    }

    #[test]
    fn a_login_at_a_provider_needs_all_of_it_and_somebody_who_may() {
        let wrong = |yaml: &str| load(&format!("dashboard: {{{yaml}}}"), None).unwrap_err();
        for half in ["oidc_issuer: 'https://id.example'", "oauth_client_id: vestal"] {
            let found = wrong(&format!("{half}, oidc_operators: ann"));
            assert!(matches!(found, SettingsError::HalfProvider { .. }), "{half}");
        }
        let nobody = wrong("oidc_issuer: 'https://id.example', oauth_client_id: vestal");
        assert!(matches!(nobody, SettingsError::NobodyNamed), "nobody by default");
        for bad in ["http://id.example", "id.example", "https://a:b@id.example", "https://a/?b"] {
            let yaml = format!("oidc_issuer: '{bad}', oauth_client_id: v, oidc_viewers: ann");
            assert!(matches!(wrong(&yaml), SettingsError::Issuer(_)), "{bad}");
        }
        let yaml = "oidc_issuer: 'https://id.example', oauth_client_id: v, oidc_viewers: ann";
        let found = load(&format!("dashboard: {{{yaml}}}"), Some("0.0.0.0")).unwrap();
        assert_eq!(found.oidc.unwrap().people, People::parse("", "ann"));
    }

    #[test]
    fn previews_at_names_of_their_own_need_a_proxy_and_names_that_are_not_the_dashboards() {
        let public = "public_url: 'https://a.example', trusted_proxies: '127.0.0.1'";
        let with =
            |url: &str| load(&format!("dashboard: {{{public}, preview_url: '{url}'}}"), None);
        assert!(with("https://*.b.example").unwrap().preview_base.is_some());
        for bad in [
            "https://b.example",
            "https://*.example",
            "https://*.a.example",
            "http://*.b.example",
            "https://*.b.example/x",
            "https://*.10.0.0.1",
            "https://*.localhost",
            "https://*",
            "*.b.example",
        ] {
            assert!(matches!(with(bad), Err(SettingsError::PreviewUrl(_))), "{bad}");
        }
        for (yaml, missing) in [
            ("trusted_proxies: '::1'", "dashboard.public_url"),
            ("public_url: 'https://a.example'", "dashboard.trusted_proxies"),
        ] {
            let yaml = format!("dashboard: {{{yaml}, preview_url: 'https://*.b.example'}}");
            let found = load(&yaml, None);
            let Err(SettingsError::PreviewWithoutProxy { missing: named }) = found else {
                panic!("{found:?}");
            };
            assert_eq!(named, missing);
        }
    }

    #[test]
    fn addresses_are_checked() {
        assert!(matches!(load("", Some("example.org")), Err(SettingsError::Host(_))));
        for bad in ["vestal.example", "https://a/b", "ftp://a", "https://"] {
            let found = load(&format!("dashboard: {{public_url: '{bad}'}}"), None);
            assert!(matches!(found, Err(SettingsError::PublicUrl(_))), "{bad}");
        }
        let found = load("dashboard: {public_url: 'https://a.example/', port: 0}", None).unwrap();
        assert_eq!((found.public_url.as_deref(), found.port), (Some("https://a.example"), 0));
    }
}
