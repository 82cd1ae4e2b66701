-- What the database knows beside chunks: its corpus, its tenants, who may read them, chunk sets and index builds.
-- Every table is under forced row-level security, the owner included: a tenant key is information too.

create table zeroth.meta (
  key text primary key,
  value text not null
);
comment on table zeroth.meta is 'Facts about this database as a whole; `corpus` names the one corpus that it holds.';

create table zeroth.tenant (
  tenant_id int generated always as identity primary key,
  tenant_key text not null unique
    check (tenant_key ~ '^[a-z0-9][a-z0-9._-]{0,62}$' and tenant_key <> 'all'),
  registered_at timestamptz not null default clock_timestamp()
);
comment on table zeroth.tenant is 'A tenant_id is never used twice, so that a retired tenant''s successor inherits nothing.';

create table zeroth.chunk_set (
  chunk_set_id int generated always as identity primary key,
  name text not null check (name ~ '^[a-z][a-z0-9_]{0,40}$'),
  dimension int not null check (dimension between 1 and 2000),
  created_at timestamptz not null default clock_timestamp(),
  unique (name, dimension)
);
comment on table zeroth.chunk_set is 'One chunk table, zeroth.chunk_<chunk_set_id>, per chunk set and vector dimension.';

create table zeroth.index_build (
  index_build_id int generated always as identity primary key,
  chunk_set_id int not null references zeroth.chunk_set,
  tenant_id int not null references zeroth.tenant,
  status text not null check (status in ('live', 'superseded')),
  fingerprint_digest text not null,
  fingerprint jsonb not null,
  chunker_version text not null,
  row_count bigint not null,
  rows_digest text not null,
  index_kind text not null check (index_kind in ('hnsw', 'none')),
  m int,
  ef_construction int,
  index_name text,
  inputs jsonb not null,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  check ((index_kind = 'hnsw') = (m is not null and ef_construction is not null))
);
create unique index index_build_one_live on zeroth.index_build (chunk_set_id, tenant_id) where status = 'live';
create index index_build_by_tenant on zeroth.index_build (tenant_id);
comment on table zeroth.index_build is 'Written in the transaction that changes the rows. A chunk''s index_build_id is the '
  'build that wrote it; its fingerprint is always that of the tenant''s live build.';
comment on column zeroth.index_build.rows_digest is 'sha256 over the ascending chunk ids, eight bytes each, big-endian.';

create table zeroth.retired_partition (
  chunk_set_id int not null,
  tenant_id int not null,
  retired_at timestamptz not null default clock_timestamp(),
  primary key (chunk_set_id, tenant_id)
);
comment on table zeroth.retired_partition is 'Emptied partitions that wait for the last old snapshot before they are dropped.';

create table zeroth_acl.grant_ (
  principal text not null check (principal <> ''),
  tenant_id int not null references zeroth.tenant on delete cascade,
  primary key (principal, tenant_id)
);

-- Who is asking, and what for -----------------------------------------------------------------------------------------

-- STABLE and wrapped in a sub-select by every policy: evaluated once per statement, not once per row.
create function zeroth.permitted_tenants() returns int[]
language sql stable security definer parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(g.tenant_id order by g.tenant_id), '{}'::int[])
  from zeroth_acl.grant_ g
  where g.principal = nullif(current_setting('zeroth.principal', true), '')
$$;
comment on function zeroth.permitted_tenants() is 'Tenants that the transaction''s principal may read; none without one.';
revoke all on function zeroth.permitted_tenants() from public;
grant execute on function zeroth.permitted_tenants() to zeroth_app;

-- Not a boundary (the loader sets it itself): a load that has mistaken its tenant touches nothing.
create function zeroth.loading_tenant() returns int
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$ select nullif(current_setting('zeroth.loading_tenant', true), '')::int $$;
revoke all on function zeroth.loading_tenant() from public;
grant execute on function zeroth.loading_tenant() to zeroth_loader;

-- Policies ------------------------------------------------------------------------------------------------------------

alter table zeroth.meta enable row level security;
alter table zeroth.meta force row level security;
alter table zeroth.tenant enable row level security;
alter table zeroth.tenant force row level security;
alter table zeroth.chunk_set enable row level security;
alter table zeroth.chunk_set force row level security;
alter table zeroth.index_build enable row level security;
alter table zeroth.index_build force row level security;
alter table zeroth.retired_partition enable row level security;
alter table zeroth.retired_partition force row level security;
alter table zeroth_acl.grant_ enable row level security;
alter table zeroth_acl.grant_ force row level security;

-- FORCE binds the owner, whose definer functions keep these tables; it has no policy on chunk tables at all.
create policy owner_keeps on zeroth.meta to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth.tenant to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth.chunk_set to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth.index_build to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth.retired_partition to zeroth_owner using (true) with check (true);
create policy owner_keeps on zeroth_acl.grant_ to zeroth_owner using (true) with check (true);

create policy anyone_reads on zeroth.meta for select to zeroth_app, zeroth_loader using (true);
create policy anyone_reads on zeroth.chunk_set for select to zeroth_app, zeroth_loader using (true);
create policy loader_reads on zeroth.tenant for select to zeroth_loader using (true);
create policy loader_reads on zeroth.index_build for select to zeroth_loader using (true);
create policy loader_adds on zeroth.index_build for insert to zeroth_loader
  with check (tenant_id = (select zeroth.loading_tenant()));
create policy loader_changes on zeroth.index_build for update to zeroth_loader
  using (tenant_id = (select zeroth.loading_tenant()));
create policy app_reads on zeroth.tenant for select to zeroth_app
  using (tenant_id = any ((select zeroth.permitted_tenants())::int[]));
create policy app_reads on zeroth.index_build for select to zeroth_app
  using (tenant_id = any ((select zeroth.permitted_tenants())::int[]));

grant select on zeroth.meta, zeroth.tenant, zeroth.chunk_set, zeroth.index_build to zeroth_app, zeroth_loader;
grant insert on zeroth.index_build to zeroth_loader;
grant update (status, inputs, index_name, finished_at) on zeroth.index_build to zeroth_loader;

-- Registration --------------------------------------------------------------------------------------------------------

create function zeroth.register_tenant(in_key text) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  found_id int;
begin
  select t.tenant_id into found_id from zeroth.tenant t where t.tenant_key = in_key;
  if found_id is not null then
    return found_id;
  end if;
  insert into zeroth.tenant (tenant_key) values (in_key) on conflict (tenant_key) do nothing
  returning tenant_id into found_id;
  if found_id is null then  -- another load registered it since the first look
    select t.tenant_id into strict found_id from zeroth.tenant t where t.tenant_key = in_key;
    return found_id;
  end if;
  insert into zeroth_acl.grant_ (principal, tenant_id) values (in_key, found_id), ('all', found_id);
  return found_id;
end
$$;
comment on function zeroth.register_tenant(text) is
  'The tenant''s id. A new tenant is granted to the principal of its own name and to `all`.';
revoke all on function zeroth.register_tenant(text) from public;
grant execute on function zeroth.register_tenant(text) to zeroth_loader;
