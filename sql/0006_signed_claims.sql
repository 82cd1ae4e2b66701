-- Who asks is told by a signed claim, no longer by a plain setting: SQL that somebody slips into a query can set any
-- setting, but it cannot sign. The claim stands in `zeroth.claim`, made with SET LOCAL:
--
--   1.<key id>.<principal, UTF-8, base64url without padding>.<expiry, seconds since 1970>.<HMAC-SHA256, hex>
--
-- The code covers every character before the last dot. Whatever is wrong with a claim, the answer is the same: nobody.

create table zeroth_acl.principal (
  principal text primary key check (principal <> ''),
  created_at timestamptz not null default clock_timestamp()
);
comment on table zeroth_acl.principal is 'Principals that were ever granted a tenant: one without any is not one that is unknown.';
insert into zeroth_acl.principal (principal) select distinct g.principal from zeroth_acl.grant_ g;

create function zeroth_acl.know_principal() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into zeroth_acl.principal (principal) values (new.principal) on conflict (principal) do nothing;
  return new;
end
$$;
revoke all on function zeroth_acl.know_principal() from public;
create trigger know_principal before insert or update on zeroth_acl.grant_
  for each row execute function zeroth_acl.know_principal();

create table zeroth_acl.claim_key (
  key_id text primary key check (key_id ~ '^[0-9a-f]{16}$'),
  key bytea not null check (length(key) between 32 and 1024),
  created_at timestamptz not null default clock_timestamp(),
  retired_at timestamptz
);
comment on table zeroth_acl.claim_key is 'Keys that claims are signed with. One is accepted until retired_at, which may '
  'lie ahead: that is how a key is changed without a gap.';

alter table zeroth_acl.principal enable row level security;
alter table zeroth_acl.principal force row level security;
alter table zeroth_acl.claim_key enable row level security;
alter table zeroth_acl.claim_key force row level security;
create policy owner_keeps on zeroth_acl.principal to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth_acl.claim_key to zeroth_owner using (true) with check (true);

do $$
begin
  perform zeroth.forgo_statistics('zeroth_acl.principal');
  perform zeroth.forgo_statistics('zeroth_acl.claim_key');
end
$$;

-- A wheel's PostgreSQL has no pgcrypto. RFC 2104, section 2, with B = 64 bytes: a bit string can be XORed, and its wire
-- form is its length in four bytes, then its bytes.
create function zeroth.hmac_sha256(key bytea, message bytea) returns bytea
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  block bit(512) := ('x' || rpad(encode(case when length(key) > 64 then sha256(key) else key end, 'hex'), 128, '0'))::bit(512);
  inner_pad constant bit(512) := ('x' || repeat('36', 64))::bit(512);
  outer_pad constant bit(512) := ('x' || repeat('5c', 64))::bit(512);
begin
  return sha256(substring(bit_send(block # outer_pad) from 5)
    || sha256(substring(bit_send(block # inner_pad) from 5) || message));
end
$$;
comment on function zeroth.hmac_sha256(bytea, bytea) is 'HMAC-SHA256 by RFC 2104; tested with the vectors of RFC 4231.';
revoke all on function zeroth.hmac_sha256(bytea, bytea) from public;

-- Everything that the text is made of is matched before anything is decoded, so that no input raises an error. An unknown
-- key costs what a known one does. Codes are compared whole: the bits that differ are counted.
create function zeroth.verified_principal() returns text
language plpgsql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  longest_life constant int := 3660;  -- an hour, and a minute by which the signer's clock may be ahead
  claim text := current_setting('zeroth.claim', true);
  part text[];
  secret bytea;
  code bytea;
  now_epoch numeric;
begin
  if claim is null or length(claim) > 1400 then
    return null;
  end if;
  part := regexp_match(claim,
    '^(1\.([0-9a-f]{16})\.([A-Za-z0-9_-]+)\.([0-9]{1,12}))\.([0-9a-f]{64})$');
  if part is null then
    return null;
  end if;
  select k.key into secret from zeroth_acl.claim_key k
  where k.key_id = part[2] and (k.retired_at is null or k.retired_at > clock_timestamp());
  code := zeroth.hmac_sha256(coalesce(secret, '\x00'::bytea), convert_to(part[1], 'UTF8'));
  now_epoch := extract(epoch from clock_timestamp());
  if bit_count(('x' || encode(code, 'hex'))::bit(256) # ('x' || part[5])::bit(256)) = 0
    and secret is not null
    and part[4]::numeric > now_epoch and part[4]::numeric <= now_epoch + longest_life
  then
    return convert_from(
      decode(translate(part[3], '-_', '+/') || repeat('=', (4 - length(part[3]) % 4) % 4), 'base64'), 'UTF8');
  end if;
  return null;
end
$$;
comment on function zeroth.verified_principal() is 'Whom the transaction''s claim names, if its code, its key and its '
  'expiry hold now; otherwise NULL, for whatever reason.';
revoke all on function zeroth.verified_principal() from public;
grant execute on function zeroth.verified_principal() to zeroth_app;

create or replace function zeroth.permitted_tenants() returns int[]
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(g.tenant_id order by g.tenant_id), '{}'::int[])
  from zeroth_acl.grant_ g
  where g.principal = (select zeroth.verified_principal())
$$;
comment on function zeroth.permitted_tenants() is 'Tenants that the claim''s principal may read; none without a claim that holds.';

create function zeroth.my_grants() returns table (tenant_id int, tenant_key text)
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select t.tenant_id, t.tenant_key
  from zeroth_acl.grant_ g join zeroth.tenant t using (tenant_id)
  where g.principal = (select zeroth.verified_principal())
  order by t.tenant_key
$$;
comment on function zeroth.my_grants() is 'The grants of the claim''s principal and of nobody else.';
revoke all on function zeroth.my_grants() from public;
grant execute on function zeroth.my_grants() to zeroth_app;

create function zeroth.principal_is_known() returns boolean
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from zeroth_acl.principal p where p.principal = (select zeroth.verified_principal()))
$$;
comment on function zeroth.principal_is_known() is 'Whether the claim''s principal was ever granted a tenant.';
revoke all on function zeroth.principal_is_known() from public;
grant execute on function zeroth.principal_is_known() to zeroth_app;
