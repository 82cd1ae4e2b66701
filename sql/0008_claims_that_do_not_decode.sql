-- A claim whose code holds may still name nobody: whoever has the key can sign bytes that are no text. Decoding them
-- raised, and so a search failed where it had to see nothing. Now the bytes are looked at before they are taken for text.
-- There is no EXCEPTION block: it is a subtransaction, which a parallel worker cannot start.

create or replace function zeroth.verified_principal() returns text
language plpgsql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  longest_life constant int := 3660;  -- an hour, and a minute by which the signer's clock may be ahead
  -- RFC 3629, section 4, byte by byte in hex, without NUL, which PostgreSQL's text cannot hold.
  tail constant text := '[89ab][0-9a-f]';
  utf8 constant text := '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])' || tail
    || '|(e0[ab][0-9a-f]|ed[89][0-9a-f]|(e[1-9a-cef])' || tail || ')' || tail
    || '|(f0[9ab][0-9a-f]|f[123]' || tail || '|f48[0-9a-f])' || tail || tail || ')+$';
  claim text := current_setting('zeroth.claim', true);
  part text[];
  secret bytea;
  code bytea;
  name bytea;
  now_epoch numeric;
begin
  if claim is null or length(claim) > 1400 then
    return null;
  end if;
  part := regexp_match(claim,
    '^(1\.([0-9a-f]{16})\.([A-Za-z0-9_-]+)\.([0-9]{1,12}))\.([0-9a-f]{64})$');
  if part is null or length(part[3]) % 4 = 1 then
    return null;  -- base64 leaves no single character over
  end if;
  select k.key into secret from zeroth_acl.claim_key k
  where k.key_id = part[2] and (k.retired_at is null or k.retired_at > clock_timestamp());
  code := zeroth.hmac_sha256(coalesce(secret, '\x00'::bytea), convert_to(part[1], 'UTF8'));
  now_epoch := extract(epoch from clock_timestamp());
  if bit_count(('x' || encode(code, 'hex'))::bit(256) # ('x' || part[5])::bit(256)) = 0
    and secret is not null
    and part[4]::numeric > now_epoch and part[4]::numeric <= now_epoch + longest_life
  then
    name := decode(translate(part[3], '-_', '+/') || repeat('=', (4 - length(part[3]) % 4) % 4), 'base64');
    if encode(name, 'hex') ~ utf8 then
      return convert_from(name, 'UTF8');
    end if;
  end if;
  return null;
end
$$;
