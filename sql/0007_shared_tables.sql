-- The one-index-for-all baseline: per chunk set one unpartitioned table under the same policy, with one HNSW over all
-- rows, kept to be measured against. Its rows are copies; what each tenant's copy stands on is recorded beside it.

create table zeroth.shared_build (
  shared_build_id int generated always as identity primary key,
  chunk_set_id int not null references zeroth.chunk_set,
  status text not null check (status in ('live', 'superseded')),
  fingerprint_digest text,
  row_count bigint not null,
  parts_digest text not null,
  m int not null,
  ef_construction int not null,
  index_name text,
  rows_since_index bigint not null,
  started_at timestamptz not null,
  finished_at timestamptz not null
);
create unique index shared_build_one_live on zeroth.shared_build (chunk_set_id) where status = 'live';
comment on table zeroth.shared_build is 'Written in the transaction that changes the rows of zeroth.shared_<chunk_set_id>.';
comment on column zeroth.shared_build.parts_digest is 'sha256 over a line per tenant, by ascending id: '
  'tenant_id, index_build_id, row_count and rows_digest of the build that it stands on.';
comment on column zeroth.shared_build.rows_since_index is 'Rows put into the index since it was built in one piece.';

create table zeroth.shared_part (
  chunk_set_id int not null references zeroth.chunk_set,
  tenant_id int not null references zeroth.tenant on delete cascade,
  index_build_id int not null references zeroth.index_build on delete cascade,
  row_count bigint not null,
  rows_digest text not null,
  primary key (chunk_set_id, tenant_id)
);
create index shared_part_by_tenant on zeroth.shared_part (tenant_id);
create index shared_part_by_build on zeroth.shared_part (index_build_id);
comment on table zeroth.shared_part is 'The index build whose rows a tenant has in the shared table of a chunk set.';

alter table zeroth.shared_build enable row level security;
alter table zeroth.shared_build force row level security;
alter table zeroth.shared_part enable row level security;
alter table zeroth.shared_part force row level security;
select zeroth.forgo_statistics('zeroth.shared_build'::regclass), zeroth.forgo_statistics('zeroth.shared_part'::regclass);

-- The build's record tells the size of everybody's rows together: no querying role reads it.
create policy owner_keeps on zeroth.shared_build to zeroth_owner using (true) with check (true);
create policy loader_keeps on zeroth.shared_build to zeroth_loader using (true) with check (true);
create policy owner_keeps on zeroth.shared_part to zeroth_owner using (true) with check (true);
create policy loader_reads on zeroth.shared_part for select to zeroth_loader using (true);
create policy loader_adds on zeroth.shared_part for insert to zeroth_loader
  with check (tenant_id = (select zeroth.loading_tenant()));
create policy loader_deletes on zeroth.shared_part for delete to zeroth_loader
  using (tenant_id = (select zeroth.loading_tenant()));
create policy app_reads on zeroth.shared_part for select to zeroth_app
  using (tenant_id = any ((select zeroth.permitted_tenants())::int[]));
grant select, insert on zeroth.shared_build to zeroth_loader;
grant update (status, index_name, rows_since_index, finished_at) on zeroth.shared_build to zeroth_loader;
grant select, insert, delete on zeroth.shared_part to zeroth_loader;
grant select on zeroth.shared_part to zeroth_app;

create function zeroth.require_shared(in_set int) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if in_set is null or to_regclass(format('zeroth.shared_%s', in_set)) is null then
    raise exception 'chunk set % has no shared table', in_set using errcode = 'ZA006';
  end if;
end
$$;
revoke all on function zeroth.require_shared(int) from public;

create function zeroth.ensure_shared(in_set int) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('zeroth.ensure_shared', 0));
  if not exists (select from zeroth.chunk_set s where s.chunk_set_id = in_set) then
    raise exception 'there is no chunk set %', in_set using errcode = 'ZA001';
  end if;
  if to_regclass(format('zeroth.shared_%s', in_set)) is not null then
    return;
  end if;
  execute format('create table zeroth.shared_%1$s (like zeroth.chunk_%1$s including all excluding indexes)', in_set);
  execute format('alter table zeroth.shared_%1$s add primary key (tenant_id, chunk_id)', in_set);
  perform zeroth.forgo_statistics(format('zeroth.shared_%s', in_set)::regclass);
  -- As on chunk tables, and for the same reason: these counts stand in the sizes of the partitions anyway, and without
  -- them every tenant would be guessed at one and the same share.
  execute format('alter table zeroth.shared_%s alter column tenant_id set statistics -1', in_set);
  execute format('alter table zeroth.shared_%s enable row level security', in_set);
  execute format('alter table zeroth.shared_%s force row level security', in_set);
  execute format($ddl$
    create policy app_reads on zeroth.shared_%s for select to zeroth_app
      using (tenant_id = any ((select zeroth.permitted_tenants())::int[]))
  $ddl$, in_set);
  execute format($ddl$
    create policy loader_keeps on zeroth.shared_%s to zeroth_loader
      using (tenant_id = (select zeroth.loading_tenant()))
      with check (tenant_id = (select zeroth.loading_tenant()))
  $ddl$, in_set);
  execute format('grant select on zeroth.shared_%s to zeroth_app', in_set);
  execute format('grant select, insert, delete on zeroth.shared_%s to zeroth_loader', in_set);
end
$$;
comment on function zeroth.ensure_shared(int) is 'The shared table of a chunk set, made if absent; empty and without an HNSW.';
revoke all on function zeroth.ensure_shared(int) from public;
grant execute on function zeroth.ensure_shared(int) to zeroth_loader;

create function zeroth.index_shared(in_set int, in_build int, in_m int, in_ef_construction int) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  index_name text := format('shared_%s_hnsw_%s', in_set, in_build);
begin
  perform zeroth.require_shared(in_set);
  if not coalesce(in_build > 0 and in_m between 2 and 100 and in_ef_construction between 4 and 1000, false) then
    raise exception 'index parameters out of range' using errcode = 'ZA004';
  end if;
  execute format('drop index if exists zeroth.%I', index_name);
  execute format(
    'create index %I on zeroth.%I using hnsw (embedding %s.vector_cosine_ops) with (m = %s, ef_construction = %s)',
    index_name, format('shared_%s', in_set), zeroth.vector_schema(), in_m, in_ef_construction);
  return index_name;
end
$$;
comment on function zeroth.index_shared(int, int, int, int) is
  'Builds the HNSW over every row of the shared table, beside any that it has. Returns the index''s name.';
revoke all on function zeroth.index_shared(int, int, int, int) from public;
grant execute on function zeroth.index_shared(int, int, int, int) to zeroth_loader;

create function zeroth.index_shared_tenant(in_set int, in_tenant int, in_m int, in_ef_construction int) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '10s'
as $$
declare
  index_name text := format('shared_%s_t%s_hnsw', in_set, in_tenant);
begin
  perform zeroth.require_known(in_set, in_tenant);
  perform zeroth.require_shared(in_set);
  if not coalesce(in_m between 2 and 100 and in_ef_construction between 4 and 1000, false) then
    raise exception 'index parameters out of range' using errcode = 'ZA004';
  end if;
  execute format(
    'create index %I on zeroth.%I using hnsw (embedding %s.vector_cosine_ops) with (m = %s, ef_construction = %s) '
    'where tenant_id = %s',
    index_name, format('shared_%s', in_set), zeroth.vector_schema(), in_m, in_ef_construction, in_tenant);
  return index_name;
end
$$;
comment on function zeroth.index_shared_tenant(int, int, int, int) is
  'Builds a partial HNSW over one tenant''s rows of the shared table. Writers of the table wait, readers go on.';
revoke all on function zeroth.index_shared_tenant(int, int, int, int) from public;
grant execute on function zeroth.index_shared_tenant(int, int, int, int) to zeroth_loader;

create function zeroth.drop_shared_tenant_index(in_set int, in_tenant int) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  index_name text := format('shared_%s_t%s_hnsw', in_set, in_tenant);
begin
  if to_regclass(format('zeroth.%I', index_name)) is null then
    return false;
  end if;
  execute format('drop index zeroth.%I', index_name);
  return true;
end
$$;
comment on function zeroth.drop_shared_tenant_index(int, int) is
  'Drops a tenant''s partial index. Its lock (ACCESS EXCLUSIVE on the shared table) is waited for 200 ms at most.';
revoke all on function zeroth.drop_shared_tenant_index(int, int) from public;
grant execute on function zeroth.drop_shared_tenant_index(int, int) to zeroth_loader;

create function zeroth.drop_superseded_shared_indexes(in_set int) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  former text;
  dropped int := 0;
begin
  perform zeroth.require_shared(in_set);
  for former in
    select i.relname
    from pg_index x
    join pg_class i on i.oid = x.indexrelid
    join pg_class t on t.oid = x.indrelid
    join pg_namespace n on n.oid = t.relnamespace
    join pg_am a on a.oid = i.relam
    where n.nspname = 'zeroth' and t.relname = format('shared_%s', in_set) and a.amname = 'hnsw'
      and not exists (
        select from zeroth.shared_build b
        where b.chunk_set_id = in_set and b.status = 'live' and b.index_name = i.relname)
      and not exists (
        select from zeroth.tenant e where i.relname = format('shared_%s_t%s_hnsw', in_set, e.tenant_id))
  loop
    execute format('drop index zeroth.%I', former);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
comment on function zeroth.drop_superseded_shared_indexes(int) is
  'Drops HNSW indexes of the shared table other than its live build''s, and partial ones of tenants that are gone.';
revoke all on function zeroth.drop_superseded_shared_indexes(int) from public;
grant execute on function zeroth.drop_superseded_shared_indexes(int) to zeroth_loader;
