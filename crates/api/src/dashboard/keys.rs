//! Settings of the dashboard. There is one per home, so they are read from the default profile.

use vestal_config::{
    Count, Group, LineMode, Protection, Range, Secrecy, SecretText, Text, TextLimits,
};

const LINE: TextLimits = TextLimits { max_bytes: 4096, lines: LineMode::One };

vestal_config::keys! {
    /// Whether the supervisor keeps the dashboard running. `vestal dashboard` serves it without.
    DASHBOARD_ENABLED: bool = "dashboard.enabled" {
        default: false,
        limits: (),
        env: ["VESTAL_DASHBOARD"],
        protection: Protection::Guards,
    }

    /// Address that the dashboard listens on; empty for `127.0.0.1`. Any other than a loopback
    /// address needs a way to log in: `vestal dashboard password`, or
    /// `dashboard.proxy_user_header`.
    DASHBOARD_HOST: Text = "dashboard.host" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_HOST"],
        protection: Protection::Guards,
    }

    /// Port that the dashboard listens on; 0 for any that is free.
    DASHBOARD_PORT: Count = "dashboard.port" {
        default: Count::new(9119),
        limits: Range { min: 0, max: 65_535 },
        env: ["VESTAL_DASHBOARD_PORT"],
        protection: Protection::Guards,
    }

    /// Address that browsers use for the dashboard if that is not the one it listens on, as
    /// behind a reverse proxy: `https://vestal.example.org`. With `https`, cookies insist on TLS.
    DASHBOARD_PUBLIC_URL: Text = "dashboard.public_url" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_PUBLIC_URL"],
        protection: Protection::Guards,
    }

    /// Addresses or networks, separated by commas, of reverse proxies whose `X-Forwarded-For`,
    /// `-Host` and `-Proto` count. From any other peer they are ignored.
    DASHBOARD_TRUSTED_PROXIES: Text = "dashboard.trusted_proxies" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_TRUSTED_PROXIES"],
        protection: Protection::Guards,
    }

    /// Addresses of previews for who opens the dashboard at `dashboard.public_url`, with a star for
    /// the part that is made anew for each: `https://*.preview.example.net`. All names like that
    /// must lead to the trusted proxy, which passes them on with their `Host`. Choose another
    /// domain than the dashboard's: what is previewed is not to be trusted.
    DASHBOARD_PREVIEW_URL: Text = "dashboard.preview_url" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_PREVIEW_URL"],
        protection: Protection::Guards,
    }

    /// Header in which a trusted proxy names the person who has logged in there, such as
    /// `X-Remote-User`. A person it names is an operator, unless `dashboard.proxy_operators` or
    /// `dashboard.proxy_viewers` says otherwise. The proxy must remove the header from what clients
    /// send.
    DASHBOARD_PROXY_USER_HEADER: Text = "dashboard.proxy_user_header" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_PROXY_USER_HEADER"],
        protection: Protection::Guards,
    }

    /// Names, separated by commas, that a trusted proxy gives to operators. With any, all
    /// others that it names are viewers.
    DASHBOARD_PROXY_OPERATORS: Text = "dashboard.proxy_operators" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_PROXY_OPERATORS"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Names, separated by commas, that a trusted proxy gives to people who may look and not
    /// change anything.
    DASHBOARD_PROXY_VIEWERS: Text = "dashboard.proxy_viewers" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_PROXY_VIEWERS"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Provider of OpenID Connect that people log in at: its issuer, such as
    /// `https://id.example.org`. Also needs `dashboard.oauth_client_id`, and somebody in
    /// `dashboard.oidc_operators` or `dashboard.oidc_viewers`. The address that it has to send
    /// browsers back to is that of the dashboard with `/login/callback`.
    DASHBOARD_OIDC_ISSUER: Text = "dashboard.oidc_issuer" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_OIDC_ISSUER"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Who this dashboard is to the provider of `dashboard.oidc_issuer`.
    DASHBOARD_OAUTH_CLIENT_ID: Text = "dashboard.oauth_client_id" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_OAUTH_CLIENT_ID"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Secret that proves who this dashboard is to the provider; none for a public client. Its
    /// place is `.env`: `VESTAL_DASHBOARD_OAUTH_CLIENT_SECRET=…`.
    DASHBOARD_OAUTH_CLIENT_SECRET: SecretText = "dashboard.oauth_client_secret" {
        default: SecretText::EMPTY,
        limits: (),
        env: ["VESTAL_DASHBOARD_OAUTH_CLIENT_SECRET"],
        secrecy: Secrecy::Secret,
        protection: Protection::Guards,
        travels: false,
    }

    /// Scopes that the provider is asked for, separated by spaces; empty for `openid email`.
    DASHBOARD_OIDC_SCOPES: Text = "dashboard.oidc_scopes" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_OIDC_SCOPES"],
        travels: false,
    }

    /// People, separated by commas, who may log in at the provider and change everything: their
    /// subjects, or addresses of mail that the provider has verified. Nobody unless named.
    DASHBOARD_OIDC_OPERATORS: Text = "dashboard.oidc_operators" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_OIDC_OPERATORS"],
        protection: Protection::Guards,
        travels: false,
    }

    /// People, separated by commas, who may log in at the provider and look: their subjects, or
    /// addresses of mail that the provider has verified. Nobody unless named.
    DASHBOARD_OIDC_VIEWERS: Text = "dashboard.oidc_viewers" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["VESTAL_DASHBOARD_OIDC_VIEWERS"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Whether everybody who can reach the dashboard may do everything, without a login. Every
    /// page has a banner then.
    DASHBOARD_INSECURE: bool = "dashboard.insecure" {
        default: false,
        limits: (),
        env: ["VESTAL_DASHBOARD_INSECURE"],
        protection: Protection::Guards,
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group::of(KEYS);
