-- Retiring a tenant: its rows go by DELETE (right for every snapshot), its registration in the same transaction. The
-- empty partitions are dropped later, once no snapshot is left that could still see the rows.

create function zeroth.unregister_tenant(in_tenant int) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from zeroth.tenant t where t.tenant_id = in_tenant) then
    raise exception 'there is no tenant %', in_tenant using errcode = 'ZA002';
  end if;
  insert into zeroth.retired_partition (chunk_set_id, tenant_id)
  select s.chunk_set_id, in_tenant from zeroth.chunk_set s where zeroth.partition_exists(s.chunk_set_id, in_tenant);
  delete from zeroth.index_build b where b.tenant_id = in_tenant;
  delete from zeroth_acl.grant_ g where g.tenant_id = in_tenant;
  delete from zeroth.tenant t where t.tenant_id = in_tenant;
end
$$;
comment on function zeroth.unregister_tenant(int) is
  'Forgets a tenant, its grants and its builds, and notes its partitions for the sweep. The caller deletes the rows.';
revoke all on function zeroth.unregister_tenant(int) from public;
grant execute on function zeroth.unregister_tenant(int) to zeroth_loader;
